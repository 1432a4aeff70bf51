"""Transfer of samples: raw times of all requests as bytes, and back with checks.

The bytes are the length of a JSON head, the head with the numbers of items, and the items: times as
little-endian doubles, kinds of failures as numbers of one byte. It is not pickle, because samples
come from other machines.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections.abc import Sequence
from itertools import islice
from operator import le
from struct import Struct
from struct import error as struct_error
from typing import Any

from offload.loads.engine.figures.samples import Samples

LENGTH = Struct("!Q")
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


def encode(parts: Sequence[Samples]) -> bytes:
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
    return LENGTH.pack(len(head)) + head + content


def decode(data: bytes) -> list[Samples]:
    """Return the samples in bytes; raise BadSamplesError if they are not those of a load."""
    try:
        [length] = LENGTH.unpack_from(data)
        heads = json.loads(data[LENGTH.size : LENGTH.size + length])
        place = LENGTH.size + length
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
