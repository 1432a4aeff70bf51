"""The protocol of a worker's socket: frames of small entries, and large buffers beside them.

    frame    size of the envelope and of the blob (8 bytes each), envelope, blob
    envelope a list of tuples that hold plain values and bytes only: to the worker one protocol-5
             pickle, to the parent marshalled, so that the worker can add one tuple after the other
    blob     the large buffers that did not fit into the shared memory, one after the other

Each value is encoded separately: a value that cannot be pickled fails only its own entry, and two
tasks never share an object. A buffer's place is (block, offset, size); block -1 means the blob.

    to the worker    (sequence, function number, function or None, kind, payload)
    to the parent    (sequence, kind, payload, run time in ns)
"""

from __future__ import annotations

import copyreg
import io
import marshal
import pickle
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from multiprocessing import reduction
from typing import Any

from pipepool.workers.shared_memory import (
    HELD,
    OUTBOX,
    OUTBOX_END,
    Arena,
    SharedMemory,
    above_standard,
    keep_freed_pages,
)

HEADER = struct.Struct("<QQ")
MARSHAL_VERSION = 2  # the last one in which a list is its head and then its items, one by one
OUTBOX_HEADER = struct.Struct("<QQcI")  # HEADER, and the head of a marshalled list
FIRST_HELD = OUTBOX + OUTBOX_HEADER.size  # where the entries of the outbox begin
LARGE = 32 << 10  # bytes from which a buffer goes through shared memory; an estimate
MOST = 1 << 48  # bytes of a frame; a larger size means a damaged frame
BUFFER = 64 << 10  # bytes of the receive buffer; a larger frame gets a buffer of its own
# A flag of `send`: if the peer has gone, raise an error instead of SIGPIPE.
NO_SIGPIPE: int = getattr(socket, "MSG_NOSIGNAL", 0)
SETUP = 0  # the sequence number of a worker's set-up, and of its answer

# Kinds of an encoded value:
#     PLAIN       the value itself
#     BYTES       the place of bytes in the shared memory or the blob
#     PICKLED     a pickle, and the places of its buffers, each with whether it is read-only
#     WITH_BYTES  arguments of a call, and the places of large bytes among them, by position or name
#     VIEWS       as PICKLED, but its buffers become views of the shared memory
#     FAILED      an exception
#     SKIPPED     a task that was not run
#     ITEM        an item of a stream: kind and payload of the item
PLAIN, BYTES, PICKLED, WITH_BYTES, VIEWS, FAILED, SKIPPED, ITEM = range(8)
CONNECTION_MODULE = "multiprocessing.connection"
REDUCERS: dict[type, Any] = reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]
CREDIT = -1  # in place of a function number: the payload is more credit for a stream; 0 ends it

Place = tuple[int, int, int]
Places = list[tuple[Place, type[Any]]]  # the type is bytes, bytearray, or memoryview for a view
Entry = tuple[Any, ...]
Frame = tuple[list[Entry], memoryview]
SMALL = frozenset((int, float, bool, type(None)))


class Encoder:
    """Encodes values, and puts their large buffers into the shared memory, or else into the blob.

    In the parent it also collects entries; `frame` returns the buffers that hold all of them.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.blob: list[memoryview] = []  # buffers that were not copied and may still change
        self._blob_size = 0
        self._reducers = -1  # number of those that were checked
        self._needs_reducers = False
        self.entries: list[Entry] = []

    def frame(self) -> list[bytes | memoryview]:
        """Return the buffers to send for all entries since the last call; they do not change.

        After a MemoryError the entries are still there.
        """
        envelope = pickle.dumps(self.entries, 5)
        head = HEADER.pack(len(envelope), self._blob_size) + envelope
        blob = [_immutable(part) for part in self.blob]
        self.entries.clear()
        self.take_blob()
        return [head, *blob]

    def take_blob(self) -> tuple[list[memoryview], int]:
        """Return the buffers of the blob, which are forgotten, and their size."""
        blob, size = self.blob, self._blob_size
        if blob:
            self.blob, self._blob_size = [], 0
        return blob, size

    def drop_calls(self) -> dict[int, bool]:
        """Forget the calls that are not in a frame yet, and free their blocks.

        Return their sequence numbers, each with whether the call has buffers in the blob.
        """
        decoder = Decoder(self._arena)
        dropped: dict[int, bool] = {}
        for sequence, _, _, kind, payload in self.entries:
            decoder.discard(kind, payload)
            dropped[sequence] = any(block < 0 for (block, _, _), _ in _places(kind, payload))
        self.entries.clear()
        self.blob, self._blob_size = [], 0
        return dropped

    def encode(self, value: object) -> tuple[int, Any]:
        """Return kind and payload of a value; raise what pickle raises."""
        kind = type(value)
        if kind in SMALL:
            return PLAIN, value
        if kind is bytes or kind is str:
            if len(value) < LARGE:  # type: ignore[arg-type]
                return PLAIN, value
            if kind is bytes:
                return BYTES, self._place(memoryview(value))  # type: ignore[arg-type]
        return self._pickle(value, PICKLED)

    def encode_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], extra: object, as_views: bool = False
    ) -> tuple[int, Any]:
        """Return kind and payload of a call's arguments; large bytes are placed separately."""
        is_bare = not kwargs and extra is None
        each: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        large = {key: v for key, v in each if type(v) is bytes and len(v) >= LARGE}
        if large:
            args = tuple(None if i in large else value for i, value in enumerate(args))
            kwargs = {name: None if name in large else kwargs[name] for name in kwargs}
        if is_bare and are_plain(args):
            kind, payload = PLAIN, args
        else:
            kind, payload = self._pickle((args, kwargs, extra), VIEWS if as_views else PICKLED)
        if not large:
            return kind, payload
        places = [(key, self._place(memoryview(value))) for key, value in large.items()]
        return WITH_BYTES, (kind, payload, as_views, places)

    def _pickle(self, value: object, kind: int) -> tuple[int, Any]:
        buffers: list[memoryview] = []

        def keep(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if view.nbytes < LARGE:
                return True
            buffers.append(view)
            return False

        if len(REDUCERS) != self._reducers:
            self._check_reducers()
        if self._needs_reducers:
            data = _pickle_with_reducers(value, keep)
        else:
            try:
                data = pickle.dumps(value, 5, buffer_callback=keep)
            except TypeError:  # as for a socket: perhaps multiprocessing can
                buffers.clear()
                data = _pickle_with_reducers(value, keep)
        body = data if len(data) < LARGE else self._place(memoryview(data))
        places = [(*self._place(view), view.readonly) for view in buffers]
        return kind, (body, places)

    def _check_reducers(self) -> None:
        """Check whether modules have registered how multiprocessing is to pickle their types.

        The types that multiprocessing itself registers need no check of each value: plain pickle
        refuses them, except for connections.
        """
        self._reducers = len(REDUCERS)
        if CONNECTION_MODULE in sys.modules:
            _support_connections()
        own = tuple(f"{name}." for name in ("multiprocessing", "pipepool"))
        self._needs_reducers = not all(
            f"{getattr(reduce, '__module__', '')}.".startswith(own) for reduce in REDUCERS.values()
        )

    def _place(self, data: memoryview) -> Place:
        place = self._arena.put(data)
        if place is None:
            place = -1, self._blob_size, data.nbytes
            self.blob.append(data)
            self._blob_size += data.nbytes
        return place


class Outbox:
    """The entries that a worker has not sent yet: a frame in the shared memory.

    The parent can read the results there, up to the word HELD of the status block, while the worker
    is busy and after it has died. It reads no items of a stream, and no results with a blob.
    """

    def __init__(self, memory: SharedMemory, encoder: Encoder, sock: socket.socket) -> None:
        self._map, self._status = memory.map, memory.status
        self._view: Any = memoryview(memory.map)
        self._encoder = encoder
        self._socket = sock
        self.count = 0
        self._end = FIRST_HELD

    def put(self, entry: Entry, is_readable: bool = True) -> None:
        """Add an entry, after sending those before it if there is no room for it."""
        data = marshal.dumps(entry, MARSHAL_VERSION)
        begin = self._end
        end = begin + len(data)
        if end > OUTBOX_END:
            self._send_frame([], 0)  # the blob, if any, belongs to this entry
            begin, end = FIRST_HELD, FIRST_HELD + len(data)
            if end > OUTBOX_END:
                self._send_alone(data)
                return
        self._map[begin:end] = data
        self._end = end
        self.count += 1
        if is_readable:
            self._status[HELD] = end

    def send(self) -> None:
        """Send all entries as one frame."""
        if self.count:
            self._send_frame(*self._encoder.take_blob())

    def _send_frame(self, blob: list[memoryview], blob_size: int) -> None:
        size = self._end - OUTBOX - HEADER.size
        OUTBOX_HEADER.pack_into(self._map, OUTBOX, size, blob_size, b"[", self.count)
        self._socket.sendall(self._view[OUTBOX : self._end], NO_SIGPIPE)
        for part in blob:
            self._socket.sendall(part, NO_SIGPIPE)
        self._status[HELD] = self.count = 0
        self._end = FIRST_HELD

    def _send_alone(self, data: bytes) -> None:
        """Send one entry that is larger than the outbox."""
        blob, blob_size = self._encoder.take_blob()
        size = OUTBOX_HEADER.size - HEADER.size + len(data)
        self._socket.sendall(OUTBOX_HEADER.pack(size, blob_size, b"[", 1) + data, NO_SIGPIPE)
        for part in blob:
            self._socket.sendall(part, NO_SIGPIPE)


def read_outbox(memory: SharedMemory) -> list[Entry]:
    """Return the results in a worker's outbox; none if the worker changes it meanwhile."""
    status = memory.status
    before = bytes(status)
    file = io.BytesIO(memory.map[FIRST_HELD : max(FIRST_HELD, min(status[HELD], OUTBOX_END))])
    if bytes(status) != before:
        return []
    entries: list[Entry] = []
    while file.tell() < len(file.getbuffer()):
        entries.append(marshal.load(file))  # noqa: S302 - from our own child
    return entries


class Decoder:
    """Turns kinds and payloads into values, and frees the blocks that they came in."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena

    def decode(self, kind: int, payload: Any, blob: memoryview, as_views: bool = False) -> Any:
        """Return the value; with `as_views` bytes and large buffers are memoryviews."""
        if kind == PLAIN:
            return memoryview(payload) if as_views and type(payload) is bytes else payload
        taken: list[Any] = []
        try:
            self._take(_places(kind, payload, as_views), blob, taken)
            return _load(kind, payload, iter(taken))
        finally:
            taken.clear()  # else the traceback of an exception keeps copies and views alive

    def discard(self, kind: int, payload: Any) -> None:
        """Free the blocks of a value that is not decoded."""
        for (block, _, _), _ in _places(kind, payload):
            if block >= 0:
                self._arena.free(block)

    def _take(self, places: Places, blob: memoryview, taken: list[Any]) -> None:
        """Add the buffers of places to `taken`: copies, and views.

        A view frees its block when it is released. All other blocks are freed here, also if a copy
        fails.
        """
        try:
            for place, make in places:
                if make is memoryview:
                    taken.append(self._borrow(place, blob))
                else:
                    keep_freed_pages()
                    taken.append(make(self._view(place, blob)))
        finally:
            for number, ((block, _, _), make) in enumerate(places):
                is_lent = make is memoryview and number < len(taken)
                if block >= 0 and not is_lent:
                    self._arena.free(block)

    def _view(self, place: Place, blob: memoryview) -> memoryview:
        block, offset, size = place
        return blob[offset : offset + size] if block < 0 else self._arena.view(offset, size)

    def _borrow(self, place: Place, blob: memoryview) -> memoryview:
        if place[0] < 0:
            return self._view(place, blob).toreadonly()
        return self._arena.borrow(*place)


def _places(kind: int, payload: Any, as_views: bool = False) -> Places:
    """Return the places of a value, in the order in which `_load` needs them."""
    if kind == BYTES:
        return [(payload, memoryview if as_views else bytes)]
    if kind == WITH_BYTES:
        inner, rest, as_views, large = payload
        of_bytes: Places = [(place, memoryview if as_views else bytes) for _, place in large]
        return of_bytes + _places(inner, rest)
    if kind == ITEM:
        return _places(*payload)
    if kind not in (PICKLED, VIEWS):
        return []
    body, buffers = payload
    found: Places = [(body, bytes)] if type(body) is tuple else []
    for *place, is_readonly in buffers:
        make: type[Any] = memoryview if as_views or kind == VIEWS else bytearray
        if make is bytearray and is_readonly:  # pickle returns what we return here, for bytes too
            make = bytes
        found.append((tuple(place), make))
    return found


def _load(kind: int, payload: Any, buffers: Iterator[Any]) -> Any:
    """Return a value from the buffers of its places."""
    if kind == BYTES:
        return next(buffers)
    if kind == WITH_BYTES:
        inner, rest, _, places = payload
        large = [(key, next(buffers)) for key, _ in places]
        args, kwargs, extra = (rest, {}, None) if inner == PLAIN else _load(inner, rest, buffers)
        args = list(args)
        for key, data in large:
            (args if isinstance(key, int) else kwargs)[key] = data
        return args, kwargs, extra
    body, _ = payload
    data = next(buffers) if type(body) is tuple else body
    return pickle.loads(data, buffers=buffers)  # noqa: S301 - from our own child or parent


class FrameReader:
    """Receives frames of any size from a socket, blocking or not; `load` loads their envelopes."""

    def __init__(self, sock: socket.socket, load: Callable[[memoryview], Any]) -> None:
        self._socket = sock
        self._load = load
        self._own = memoryview(bytearray(BUFFER))
        self._buffer = self._own
        self._filled = 0
        self.received = 0  # bytes so far
        self._needed = 0  # bytes of a frame for which the buffer is too small

    def receive(self) -> list[Frame] | None:
        """Receive once; return the frames that are complete, perhaps none; None at the end.

        The view of a blob stays valid after later calls. Raises BlockingIOError if a non-blocking
        socket has no data, and MemoryError if a frame does not fit into memory; earlier calls have
        returned all frames before it.
        """
        if self._needed:
            self._grow()
        try:
            received = self._socket.recv_into(self._buffer[self._filled :])
        except ConnectionResetError:
            return None
        if not received:
            return None
        self._filled += received
        self.received += received
        return self._parse()

    def _parse(self) -> list[Frame]:
        frames: list[Frame] = []
        buffer, filled, at = self._buffer, self._filled, 0
        while filled - at >= HEADER.size:
            envelope, blob = HEADER.unpack_from(buffer, at)
            begin = at + HEADER.size
            middle, end = begin + envelope, begin + envelope + blob
            if end > filled:
                if end - at > MOST:
                    raise ValueError(f"a frame of {end - at} bytes")
                if end - at > len(buffer):
                    self._needed = end - at
                break
            view = buffer[middle:end]
            if blob and buffer is self._own:  # the next frame would overwrite it
                view = memoryview(bytes(view))
            frames.append((self._load(buffer[begin:middle]), view))
            at = end
        if buffer is not self._own and at:
            self._buffer = self._own
            self._own[: filled - at] = buffer[at:filled]
        elif at and at < filled:
            buffer[: filled - at] = bytes(buffer[at:filled])
        self._filled = filled - at
        return frames

    def _grow(self) -> None:
        larger = memoryview(bytearray(self._needed))
        larger[: self._filled] = self._buffer[: self._filled]
        self._buffer, self._needed = larger, 0


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, none of which is a standard stream that was closed."""
    one, other = socket.socketpair()
    return tuple(  # type: ignore[return-value]
        socket.socket(fileno=above_standard(each.detach())) if each.fileno() < 3 else each
        for each in (one, other)
    )


class TaskExit(RuntimeError):
    """A task raised an exception that would end a process, such as SystemExit.

    `code` is the code of SystemExit, None for all others.
    """

    def __init__(self, message: str, code: object = None) -> None:
        super().__init__(message)
        self.code = code


class RemoteError(RuntimeError):
    """A task raised an exception that cannot be pickled; this one has its type name and text."""


class RemoteTraceback(Exception):
    """The traceback in the worker, as the cause of the exception that a task raised."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def load_exception(payload: tuple[bytes, str]) -> BaseException:
    """Return the exception that a task raised, with its traceback in the worker as the cause."""
    data, trace = payload
    error: BaseException
    try:
        error = pickle.loads(data)  # noqa: S301 - from our own child
        # The exception's own __setattr__ may refuse this, for example in a frozen dataclass.
        BaseException.__setattr__(error, "__cause__", RemoteTraceback(trace))
    except BaseException as wrong:  # noqa: BLE001 - it loaded in the worker, but modules may differ
        error = RemoteError(f"{wrong!r}, while loading an exception:\n{trace}")
    return error


def _support_connections() -> None:
    """Make pickle send connections as multiprocessing does.

    Plain pickle sends only the descriptor's number: the worker would then close its own descriptor
    with the same number.
    """
    module: Any = sys.modules[CONNECTION_MODULE]
    if hasattr(module, "reduce_connection"):  # else another thread imports it
        copyreg.pickle(module.Connection, module.reduce_connection)


def _pickle_with_reducers(value: object, keep: Callable[[pickle.PickleBuffer], bool]) -> bytes:
    """Pickle a value as multiprocessing does, for example a socket with its descriptor."""
    file = io.BytesIO()
    reduction.ForkingPickler(file, 5, True, keep).dump(value)
    return file.getvalue()


def are_plain(values: tuple[Any, ...]) -> bool:
    """Whether all values are short and immutable: then no value needs a separate pickle."""
    for value in values:
        kind = type(value)
        if kind not in SMALL and ((kind is not str and kind is not bytes) or len(value) >= LARGE):
            return False
    return True


def _immutable(part: memoryview) -> memoryview:
    """Return a view of bytes that cannot change."""
    return part if type(part.obj) is bytes else memoryview(bytes(part))
