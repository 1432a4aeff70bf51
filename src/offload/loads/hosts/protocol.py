"""What an agent and the machine that measures send to each other: frames, and samples in them.

A frame is a head (kind, CRC-32 and length of its content) and its content. An agent sends MAGIC
before its first frame: whatever precedes it was printed by the host's login shell.

Samples are the raw times of all requests. Their bytes are the length of a JSON head, the head with
the numbers of items, and the items: times as little-endian doubles, kinds of failures as numbers of
one byte. It is not pickle, because samples come from other machines.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Sequence
from itertools import islice
from operator import le
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from offload.loads.engine.figures import Samples

MAGIC = b"\0offload load host\n"
FRAME_HEAD = struct.Struct("!4sII")
MOST = 1 << 20  # bytes of the content of a frame
PREAMBLE = 1 << 16  # bytes before MAGIC
HELLO, PING, PONG = b"HELO", b"PING", b"PONG"  # facts of the host; exchanges of time stamps
LOAD, READY, START = b"LOAD", b"REDY", b"STRT"  # prepare a share, it is prepared, agreed times
DATA, DONE, FAIL, END = b"DATA", b"DONE", b"FAIL", b"END_"  # samples, their hash, an error, the end


class BadFrameError(ValueError):
    """The other side sent something that is not a frame."""


class Frame(NamedTuple):
    """A received frame."""

    kind: bytes
    content: bytes


def pack_frame(kind: bytes, content: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return FRAME_HEAD.pack(kind, zlib.crc32(content), len(content)) + content


class FrameReader:
    """Reads frames from a stream.

    `receive` returns some bytes, or none at the end of the stream. It may raise an error such as
    TimeoutError: what was received is kept, and the next call continues.
    """

    def __init__(self, receive: Callable[..., bytes]) -> None:
        self._receive = receive
        self._data = bytearray()

    def skip_preamble(self, *arguments: Any) -> bytes | None:
        """Read up to MAGIC and return what was before it; None if the stream ends without it."""
        while MAGIC not in self._data:
            if len(self._data) > PREAMBLE or not self._fill(*arguments):
                return None
        before, _, rest = bytes(self._data).partition(MAGIC)
        self._data = bytearray(rest)
        return before

    @property
    def rest(self) -> bytes:
        """The bytes that were received and not yet returned."""
        return bytes(self._data)

    def next(self, *arguments: Any) -> Frame | None:
        """Return the next frame, or None at the end; raise BadFrameError.

        `arguments` are those of `receive`.
        """
        while len(self._data) < FRAME_HEAD.size:
            if not self._fill(*arguments):
                self._check_end()
                return None
        kind, checksum, length = FRAME_HEAD.unpack_from(self._data)
        if length > MOST:
            raise BadFrameError(f"a frame has {length} bytes")
        while len(self._data) < FRAME_HEAD.size + length:
            if not self._fill(*arguments):
                self._check_end()
                return None
        content = bytes(self._data[FRAME_HEAD.size : FRAME_HEAD.size + length])
        del self._data[: FRAME_HEAD.size + length]
        if zlib.crc32(content) != checksum:
            raise BadFrameError("a frame was damaged")
        return Frame(kind, content)

    def _fill(self, *arguments: Any) -> bool:
        received = self._receive(*arguments)
        self._data += received
        return bool(received)

    def _check_end(self) -> None:
        """Raise BadFrameError if the stream ended within a frame."""
        if self._data:
            raise BadFrameError("the stream ended within a frame")


# Samples
HEAD_LENGTH = Struct("!Q")
ARRAYS = ("started", "sent", "ended", "due", "late", "waited")
LONGEST = 300  # characters of a problem
BROKEN = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
    struct_error,
)


class BadSamplesError(ValueError):
    """Bytes that are not the samples of a load."""


def encode_samples(parts: Sequence[Samples]) -> bytes:
    """Return the samples of some load processes as bytes."""
    heads: list[dict[str, Any]] = []
    content = bytearray()
    for part in parts:
        kinds = list(dict.fromkeys(kind for kind, _, _ in part.failed))
        number_of = {kind: number for number, kind in enumerate(kinds)}
        times = {name: getattr(part, name) for name in ARRAYS}
        times["unfinished"] = array("d", part.unfinished)
        times["failed_started"] = array("d", (started for _, started, _ in part.failed))
        times["failed_ended"] = array("d", (ended for _, _, ended in part.failed))
        heads.append(
            {
                "counts": {name: len(each) for name, each in times.items()},
                "kinds": kinds,
                "over": part.over,
                "busy": part.busy,
                "problem": part.problem,
            }
        )
        for each in times.values():
            content += _little_endian(each).tobytes()
        content += bytes(number_of[kind] for kind, _, _ in part.failed)
    head = json.dumps(heads).encode()
    return HEAD_LENGTH.pack(len(head)) + head + content


def decode_samples(data: bytes) -> list[Samples]:
    """Return the samples in bytes; raise BadSamplesError if they are not those of a load."""
    try:
        [length] = HEAD_LENGTH.unpack_from(data)
        heads = json.loads(data[HEAD_LENGTH.size : HEAD_LENGTH.size + length])
        place = HEAD_LENGTH.size + length
        if not isinstance(heads, list):
            raise BadSamplesError("their head is not a list")
        parts = []
        for head in heads:
            part, place = _part(head, memoryview(data), place)
            parts.append(part)
    except BadSamplesError:
        raise
    except BROKEN as error:
        raise BadSamplesError(f"the samples cannot be read: {error}") from None
    if place != len(data):
        raise BadSamplesError("the length of the samples differs from that in their head")
    return parts


def _part(head: dict[str, Any], data: memoryview, place: int) -> tuple[Samples, int]:
    names = (*ARRAYS, "unfinished", "failed_started", "failed_ended")
    times: dict[str, array[float]] = {}
    for name in names:
        count = _count(head["counts"][name])
        times[name] = _doubles(data, place, count)
        place += 8 * count
    kinds, count = head["kinds"], len(times["failed_started"])
    numbers = bytes(data[place : place + count])
    if len(numbers) != count or len(times["failed_ended"]) != count:
        raise BadSamplesError("the failed requests are incomplete")
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise BadSamplesError("the kinds of failures are not names")
    failed = [
        (kinds[number][:40], started, ended)
        for number, started, ended in zip(
            numbers, times["failed_started"], times["failed_ended"], strict=True
        )
    ]
    problem = head["problem"]
    part = Samples(
        started=times["started"],
        sent=times["sent"],
        ended=times["ended"],
        failed=failed,
        unfinished=list(times["unfinished"]),
        due=times["due"],
        late=times["late"],
        waited=times["waited"],
        over=_number(head["over"]),
        busy=None if head["busy"] is None else _number(head["busy"]),
        problem=None if problem is None else str(problem)[:LONGEST],
    )
    _check(part)
    return part, place + count


def _check(part: Samples) -> None:
    """Raise BadSamplesError for samples that no load has."""
    if not len(part.started) == len(part.sent) == len(part.ended):
        raise BadSamplesError("completed requests lack a time")
    if not len(part.due) == len(part.late) == len(part.waited):
        raise BadSamplesError("scheduled requests lack a time")
    if not all(map(le, part.ended, islice(part.ended, 1, None))):
        raise BadSamplesError("completed requests are not in the order of their ends")
    if not all(map(le, part.started, part.ended)):
        raise BadSamplesError("a request ended before it started")


def _doubles(data: memoryview, place: int, count: int) -> array[float]:
    content = data[place : place + 8 * count]
    if len(content) != 8 * count:
        raise BadSamplesError("the samples are incomplete")
    found = array("d")
    found.frombytes(content)
    found = _little_endian(found)
    if not math.isfinite(math.fsum(found)):
        raise BadSamplesError("a time is not a number")
    return found


def _little_endian(times: array[float]) -> array[float]:
    if sys.byteorder == "little":
        return times
    swapped = times[:]
    swapped.byteswap()
    return swapped


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise BadSamplesError(f"{value!r} is not a number of samples")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadSamplesError(f"{str(value)[:40]!r} is not a time")
    return float(value)
