"""The arenas of glibc's malloc in this process, and the memory that they keep without use.

Each thread allocates from one of up to 8 arenas for each CPU, or MALLOC_ARENA_MAX. What it frees
stays in that arena, and threads of other arenas cannot use it. Standard library only.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress

MIB = 1 << 20
HEAP = re.compile(rb"<heap .*?</heap>", re.DOTALL)
FREE = re.compile(rb'<total type="(?:fast|rest)" count="\d+" size="(\d+)"')
LARGEST = re.compile(rb'<system type="max" size="(\d+)"')


def figures() -> dict[str, float | int] | None:
    """Return the number of arenas, and what those beside the main one keep free; None: no glibc.

    `peak_mib` is the sum of the largest sizes that they have had.
    """
    heaps = [found.group() for found in HEAP.finditer(_info())]
    if not heaps:
        return None
    free = [sum(map(int, FREE.findall(heap))) for heap in heaps]
    peaks = [sum(map(int, LARGEST.findall(heap))) for heap in heaps]
    return {
        "arenas": len(heaps),
        "free_mib": round(sum(free[1:]) / MIB, 2),
        "peak_mib": round(sum(peaks[1:]) / MIB, 2),
    }


def _info() -> bytes:
    """Return what malloc_info() of glibc writes; empty if there is none."""
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    with suppress(OSError, AttributeError):  # not Linux, or another C library
        library = ctypes.CDLL(None)
        library.open_memstream.restype = ctypes.c_void_p
        library.malloc_info, library.gnu_get_libc_version  # noqa: B018 - glibc has both
        stream = ctypes.c_void_p(library.open_memstream(ctypes.byref(text), ctypes.byref(size)))
        library.malloc_info(0, stream)
        library.fclose(stream)
        try:
            return ctypes.string_at(text.value or 0, size.value)
        finally:
            library.free(text)
    return b""
