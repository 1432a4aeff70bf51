"""The memory that a parent shares with one worker: a page of words, and two arenas of blocks.

    page 0   words of 8 bytes (RUNNING ... RECALLED), then one state byte for each block
    page 1   ANSWERS: blocks that the worker fills and the parent frees
    ...      ASKED: blocks that the parent fills and the worker frees

Only the filling side allocates and only the other side frees, so nothing is ever locked: a state
byte goes from 0 to 1 before the block is spoken of, and back to 0 after its last use.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile

# Words. The worker writes the first three around each task. SKIPS and SKIPPED are the first and the
# last task of the newest range that it skipped. The parent writes RECALLED.
RUNNING, STARTED, ENDED, SKIPS, SKIPPED, RECALLED = range(6)

PAGE = 4096
SIZE = 64 << 20  # bytes of an arena; the pages exist only once they are used
KEPT = 16 << 20  # bytes; of the 32 MiB that are the most that glibc takes for a threshold
BLOCKS = 64  # state bytes of an arena
ANSWERS = (1024, PAGE)  # where its states and its blocks begin
ASKED = (1024 + BLOCKS, PAGE + SIZE)
TOTAL = PAGE + 2 * SIZE


class _Memory(ctypes.Array):  # type: ignore[type-arg]
    """All of the memory, as an object that a lease keeps alive and that ends with the lease."""

    _type_ = ctypes.c_char
    _length_ = TOTAL
    states: memoryview | None = None
    block = 0

    def __del__(self) -> None:
        if self.states is not None:
            self.states[self.block] = 0


def create() -> tuple[int, Memory]:
    """Make the memory and give its descriptor and a mapping: no name, gone with its last user."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pipes", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, TOTAL)
        return descriptor, Memory(descriptor)
    except OSError:
        os.close(descriptor)
        raise


def keep_pages() -> None:
    """Have malloc keep the pages of what is freed, some 32 MiB of them, and use them again.

    glibc raises its thresholds when one large block is freed, which is not even touched here. With
    those it begins with, every large value costs fresh pages: as much again as copying it.
    """
    bytes(KEPT)


class Memory:
    """A mapping of the memory behind a descriptor, which is not needed any more afterwards."""

    def __init__(self, descriptor: int) -> None:
        self.map = mmap.mmap(descriptor, TOTAL)
        self.words = memoryview(self.map)[: 8 * 8].cast("Q")

    def arena(self, place: tuple[int, int]) -> Arena:
        """Give one of the two arenas, by ANSWERS or ASKED."""
        return Arena(self.map, *place)


class Arena:
    """Blocks of one direction; the methods `put` and `take` are for its two sides."""

    def __init__(self, memory: mmap.mmap, states: int, begin: int) -> None:
        self._memory = memory
        self._states = memoryview(memory)[states : states + BLOCKS]
        self._begin = begin
        self._view = memoryview(memory)[begin : begin + SIZE]
        self._used: list[tuple[int, int, int]] = []  # offset, end, block; in the order of offsets

    def put(self, data: memoryview) -> tuple[int, int, int] | None:
        """Copy bytes into the first gap they fit in: (block, offset, size); None without one."""
        size = data.nbytes
        states = self._states
        self._used = used = [each for each in self._used if states[each[2]]]
        if size > SIZE or len(used) == BLOCKS:
            return None
        offset = position = 0
        while position < len(used) and used[position][0] - offset < size:
            offset = used[position][1]
            position += 1
        if SIZE - offset < size:
            return None
        block = bytes(states).index(0)
        self._view[offset : offset + size] = data
        states[block] = 1
        used.insert(position, (offset, -(-(offset + size) // PAGE) * PAGE, block))
        return block, offset, size

    def view(self, offset: int, size: int) -> memoryview:
        """Look at a block for as long as it is not freed."""
        return self._view[offset : offset + size]

    def free(self, block: int) -> None:
        """Give a block back to the side that fills."""
        self._states[block] = 0

    def lease(self, block: int, offset: int, size: int) -> memoryview:
        """Look at a block, read only, and free it when the last view of it is gone or released."""
        memory = _Memory.from_buffer(self._memory)
        memory.states, memory.block = self._states, block
        begin = self._begin + offset
        return memoryview(memory).cast("B")[begin : begin + size].toreadonly()
