"""What crosses a socket: frames of small entries, with large buffers beside them.

    frame    sizes of envelope and blob (8 bytes each), envelope, blob
    envelope one protocol-5 pickle of a list of tuples, made of plain values and bytes only
    blob     the large buffers that found no room in the shared memory, end to end

A value is encoded by itself, so that what cannot be pickled harms no other entry and two tasks
never share an object. A buffer is placed by (block, offset, size), with block -1 for the blob.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any

from executors._arena import Arena, keep_pages

HEADER = struct.Struct("=QQ")
LARGE = 32 << 10  # bytes from which a buffer goes through shared memory; a guess

PLAIN, RAW, PICKLED, BESIDE, LENT, FAILED, SKIPPED = range(7)  # kinds of an encoded value

Place = tuple[int, int, int]
Entry = tuple[Any, ...]
SMALL = frozenset((int, float, bool, type(None)))


class Outbox:
    """Entries on their way: `add` them, then take the `frame` that holds them all."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._blob: list[memoryview] = []
        self._blob_size = 0
        self.entries: list[Entry] = []

    @property
    def has_blob(self) -> bool:
        """Whether buffers wait for the next frame that are not copied, and may still change."""
        return bool(self._blob)

    def frame(self) -> list[bytes | memoryview]:
        """Give the buffers to send for all entries since the last time, and begin anew."""
        envelope = pickle.dumps(self.entries, 5)
        head = HEADER.pack(len(envelope), self._blob_size) + envelope
        self.entries.clear()
        if not self._blob:
            return [head]
        blob, self._blob, self._blob_size = self._blob, [], 0
        return [head, *blob]

    def encode(self, value: object) -> tuple[int, Any]:
        """Make a kind and a payload of any value; raise what pickle raises."""
        kind = type(value)
        if kind in SMALL:
            return PLAIN, value
        if kind is bytes or kind is str:
            if len(value) < LARGE:  # type: ignore[arg-type]
                return PLAIN, value
            if kind is bytes:
                return RAW, self._place(memoryview(value))  # type: ignore[arg-type]
        return self._pickle(value, PICKLED)

    def encode_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], more: object, lend: bool = False
    ) -> tuple[int, Any]:
        """Make a kind and a payload of arguments: large bytes go beside what is left of them."""
        is_bare = not kwargs and more is None
        if is_bare and _are_plain(args):
            return PLAIN, args
        large = [i for i, value in enumerate(args) if type(value) is bytes and len(value) >= LARGE]
        rest = tuple(None if i in large else v for i, v in enumerate(args)) if large else args
        if is_bare and _are_plain(rest):
            kind, payload = PLAIN, rest
        else:
            kind, payload = self._pickle((rest, kwargs, more), LENT if lend else PICKLED)
        if not large:
            return kind, payload
        places = [(i, self._place(memoryview(args[i]))) for i in large]
        return BESIDE, (kind, payload, lend, places)

    def _pickle(self, value: object, kind: int) -> tuple[int, Any]:
        buffers: list[memoryview] = []

        def keep(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if view.nbytes < LARGE:
                return True
            buffers.append(view)
            return False

        data = pickle.dumps(value, 5, buffer_callback=keep)
        body = data if len(data) < LARGE else self._place(memoryview(data))
        return kind, (body, [self._place(view) for view in buffers])

    def _place(self, data: memoryview) -> Place:
        place = self._arena.put(data)
        if place is None:
            place = -1, self._blob_size, data.nbytes
            self._blob.append(data)
            self._blob_size += data.nbytes
        return place


class Decoder:
    """Make values of kinds and payloads, and free the blocks that they came in."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._keeps_pages = False

    def decode(self, kind: int, payload: Any, blob: memoryview, lease: bool = False) -> Any:
        """Give the value; with `lease` its large buffers are views that free themselves."""
        if kind == PLAIN:
            return payload
        if kind == RAW:
            return self._leased(payload, blob) if lease else self._copied(payload, blob, bytes)
        if kind == BESIDE:
            return self._call(payload, blob)
        body, places = payload
        if type(body) is tuple:
            body = self._copied(body, blob, bytes)
        if lease or kind == LENT:
            return pickle.loads(body, buffers=[self._leased(place, blob) for place in places])  # noqa: S301
        buffers = [self._copied(place, blob, bytearray) for place in places]
        return pickle.loads(body, buffers=buffers)  # noqa: S301 - from our own child or parent

    def _call(self, payload: Any, blob: memoryview) -> Any:
        """Put large bytes, or views of them when they were lent, among the other arguments."""
        kind, rest, lend, places = payload
        large = [
            (i, self._leased(place, blob) if lend else self._copied(place, blob, bytes))
            for i, place in places
        ]
        args, kwargs, more = (rest, {}, None) if kind == PLAIN else self.decode(kind, rest, blob)
        args = list(args)
        for i, data in large:
            args[i] = data
        return args, kwargs, more

    def discard(self, kind: int, payload: Any) -> None:
        """Free the blocks of a value that nobody waits for."""
        places: Sequence[Place] = ()
        if kind == RAW:
            places = [payload]
        elif kind == BESIDE:
            inner, rest, _, beside = payload
            self.discard(inner, rest)
            places = [place for _, place in beside]
        elif kind in {PICKLED, LENT}:
            body, places = payload
            places = [*places, body] if type(body) is tuple else places
        for block, _, _ in places:
            if block >= 0:
                self._arena.free(block)

    def _look(self, place: Place, blob: memoryview) -> memoryview:
        block, offset, size = place
        return blob[offset : offset + size] if block < 0 else self._arena.view(offset, size)

    def _copied(self, place: Place, blob: memoryview, make: type[Any]) -> Any:
        if not self._keeps_pages:
            self._keeps_pages = True
            keep_pages()
        data = make(self._look(place, blob))
        if place[0] >= 0:
            self._arena.free(place[0])
        return data

    def _leased(self, place: Place, blob: memoryview) -> memoryview:
        return self._look(place, blob).toreadonly() if place[0] < 0 else self._arena.lease(*place)


def _are_plain(values: tuple[Any, ...]) -> bool:
    """Whether values may go as they are: short ones that nobody can change."""
    for value in values:
        kind = type(value)
        if kind not in SMALL and ((kind is not str and kind is not bytes) or len(value) >= LARGE):
            return False
    return True
