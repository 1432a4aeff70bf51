"""Memory shared by the parent and one worker: a status block, and two arenas for large buffers.

    page 0   the status block: words of 8 bytes (RUNNING ... HELD); then one state byte a block
    page 1   OUTBOX: the frame of results that the worker has not sent yet
    ...      RESULTS: blocks that the worker fills and the parent frees
    ...      ARGUMENTS: blocks that the parent fills and the worker frees

Only the writer allocates a block, and only the reader frees it, so no lock is needed: the writer
sets the state byte to 1 before it sends the block's place, the reader to 0 after its last use.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import mmap
import os
from collections.abc import Iterator

# Words of the status block. The worker writes RUNNING and STARTED (ns of the monotonic clock)
# before each task and ENDED after it, and the last range of tasks that it skipped: FIRST_SKIPPED to
# LAST_SKIPPED. The parent writes REVOKED and STOPPED: the worker starts no task whose sequence
# number is at most REVOKED, and it ends the stream whose sequence number is STOPPED. HELD is the
# size of the results in the outbox: the parent reads them there if the worker is busy or has died.
RUNNING, STARTED, ENDED, FIRST_SKIPPED, LAST_SKIPPED, REVOKED, STOPPED, HELD = range(8)

PAGE = 4096
OUTBOX, OUTBOX_END = PAGE, 17 * PAGE
ARENA_SIZE = 64 << 20  # bytes of an arena by default; pages are allocated on first use
BLOCKS = 64  # state bytes of an arena
RESULTS, ARGUMENTS = 0, 1
STATES = (1024, 1024 + BLOCKS)  # where the state bytes of each arena begin
MALLOC_THRESHOLD = 16 << 20  # bytes; glibc raises its thresholds to at most 32 MiB


class _Mapping(ctypes.Array):  # type: ignore[type-arg]
    """The owner of a zero-copy view: the view keeps it alive, and it keeps the mapping alive.

    Its deletion frees the view's block, except in a child that was forked meanwhile.
    """

    _type_ = ctypes.c_char
    _length_ = 0
    states: memoryview | None = None
    block = 0
    pid = 0

    def __del__(self) -> None:
        if self.states is not None and self.pid == os.getpid():
            self.states[self.block] = 0


@functools.cache
def _mapping_type(size: int) -> type[_Mapping]:
    return type("_SizedMapping", (_Mapping,), {"_length_": size})


def create(arena_size: int = ARENA_SIZE) -> tuple[int, SharedMemory]:
    """Create unnamed memory, which its last user frees; return its descriptor and mapping."""
    descriptor = above_standard(_create_file())
    try:
        with _naming_the_parameter(arena_size):
            os.ftruncate(descriptor, OUTBOX_END + 2 * arena_size)
        return descriptor, SharedMemory(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def _create_file() -> int:
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("pipepool", os.MFD_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            # else a sandbox refuses it
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@contextlib.contextmanager
def _naming_the_parameter(arena_size: int) -> Iterator[None]:
    """Name the parameter to change in the error of a limit, such as that of `ulimit -f` or `-v`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        what = f"{error.strerror}: no shared memory of 2 x {arena_size} bytes for a worker"
        raise OSError(error.errno, f"{what}; use a smaller shared_memory=") from error


def above_standard(descriptor: int) -> int:
    """Return a descriptor that is none of stdin, stdout and stderr, if these were closed.

    Otherwise what C code writes to stderr would be written to it.
    """
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


@functools.cache
def keep_freed_pages() -> None:
    """Make malloc reuse the pages of freed large blocks, about 32 MiB; only the first call acts.

    glibc raises its thresholds when one large block is freed, even if it was never written to. With
    the initial thresholds each large value needs fresh pages, which cost as much as copying it.
    A second call would take its block from the heap, and use 16 MiB of memory.
    """
    bytes(MALLOC_THRESHOLD)


class SharedMemory:
    """A mapping of the memory behind a descriptor, which may be closed afterwards."""

    def __init__(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self._arena_size = (size - OUTBOX_END) // 2
        with _naming_the_parameter(self._arena_size):
            self.map = mmap.mmap(descriptor, size)
        self.status = memoryview(self.map)[: 8 * 8].cast("Q")

    def arena(self, direction: int) -> Arena:
        """Return one of the two arenas: RESULTS or ARGUMENTS."""
        begin = OUTBOX_END + direction * self._arena_size
        return Arena(self.map, STATES[direction], begin, self._arena_size)


class Arena:
    """The blocks of one direction. One side calls `put`, the other `view`, `free`, `borrow`."""

    def __init__(self, memory: mmap.mmap, states: int, begin: int, size: int) -> None:
        self._memory = memory
        self._states = memoryview(memory)[states : states + BLOCKS]
        self._begin = begin
        self._size = size
        self._view = memoryview(memory)[begin : begin + size]
        self._mapping_type = _mapping_type(len(memory))
        self._used: list[tuple[int, int, int]] = []  # (offset, end, block), sorted by offset

    def put(self, data: memoryview) -> tuple[int, int, int] | None:
        """Copy bytes into the first gap that is large enough; return (block, offset, size).

        Return None when there is no such gap.
        """
        size = data.nbytes
        states = self._states
        self._used = used = [each for each in self._used if states[each[2]]]
        if size > self._size or len(used) == BLOCKS:
            return None
        offset = position = 0
        while position < len(used) and used[position][0] - offset < size:
            offset = used[position][1]
            position += 1
        if self._size - offset < size:
            return None
        block = bytes(states).index(0)
        self._view[offset : offset + size] = data
        states[block] = 1
        used.insert(position, (offset, -(-(offset + size) // PAGE) * PAGE, block))
        return block, offset, size

    def view(self, offset: int, size: int) -> memoryview:
        """Return a view of a block, valid until the block is freed."""
        return self._view[offset : offset + size]

    def free(self, block: int) -> None:
        """Return a block to the writer."""
        self._states[block] = 0

    def borrow(self, block: int, offset: int, size: int) -> memoryview:
        """Return a read-only view that frees its block when its last user releases it."""
        mapping = self._mapping_type.from_buffer(self._memory)
        begin = self._begin + offset
        view = memoryview(mapping).cast("B")[begin : begin + size].toreadonly()
        mapping.block, mapping.pid = block, os.getpid()
        mapping.states = self._states  # last: from here on its deletion frees the block
        return view
