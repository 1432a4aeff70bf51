"""The address of this process's GIL, found once and verified. Standard library only.

CPython stores these fields in sequence: the switch interval (unsigned long, microseconds), the
thread state that last held the GIL (pointer), `locked` (int32) and the number of switches
(unsigned long). They are in `_PyRuntime` up to 3.11, in the interpreter state since 3.12. The
layout is private: the search looks for a known switch interval, and the fields found must behave
like the GIL.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from _thread import allocate_lock, start_new_thread  # real threads, also where gevent replaces them
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

from offload.serving.metrics import gil_state, process_memory

CANARIES = (5003, 7919)  # us; at most 1.6 times the default, so that threads hardly notice
SEARCHED = 1 << 18  # bytes; a guess: from 3.11 to 3.13 it is within the first 8,000
PAGE = 4096
LOCKED_OFFSET = 16  # bytes from the interval to `locked`
TRIES = 50  # to read the GIL as free: another thread may hold it briefly

INTERVAL = struct.Struct("=Q")
LOCKED = struct.Struct("=i4xQ")


@dataclass(frozen=True)
class GilAddress:
    """The address of `locked` (int32, 1 while the GIL is held); the switch count is 8 bytes on.

    The count is a uint64. `layout` names the structure that contains both, and the offset in bytes.
    """

    pid: int
    address: int
    layout: str


def find() -> GilAddress | str:
    """Return the address of the current interpreter's GIL, or a line that explains its absence.

    The search takes some milliseconds. No other thread of this process may compute meanwhile.
    """
    if sys.platform != "linux":
        return f"{sys.platform} is not Linux"
    if sys.implementation.name != "cpython" or struct.calcsize("LP") != 16:
        return f"{sys.implementation.name} is not a 64-bit CPython"
    try:
        name, base = _state()
        places = _places(base, CANARIES[0]) & _places(base, CANARIES[1])
        if len(places) != 1:
            return f"layout not recognised: {len(places)} places in the {name} look like the GIL"
        address = base + places.pop() + LOCKED_OFFSET
        difference = _find_difference(address)
    except (OSError, AttributeError, ValueError, RuntimeError) as error:
        # No such call, no such symbol, or a limit of the number of threads.
        return f"the process cannot read its own memory, or start a thread: {error}"
    if difference is not None:
        return f"layout not recognised: {difference}"
    return GilAddress(os.getpid(), address, f"{name}+{address - base}")


def facts() -> dict[str, object]:
    """Return the facts for the ready line: the address, or None and the reason."""
    found = find()
    if isinstance(found, str):
        return {"gil_address": None, "gil_address_error": found}
    return {"gil_address": asdict(found)}


def _state() -> tuple[str, int]:
    if sys.version_info < (3, 12):
        return "runtime", ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    return "interpreter", _pointer("PyInterpreterState_Get")


def _pointer(function: str) -> int:
    call = ctypes.pythonapi[function]  # not by attribute: that object is shared
    call.restype = ctypes.c_void_p
    return int(call() or 0)


def _places(base: int, canary: int) -> set[int]:
    """Set the switch interval to `canary`, find the offsets that hold it, and restore it."""
    pattern = INTERVAL.pack(canary)
    if gil_state.enabled():  # then this thread is the last holder
        pattern += INTERVAL.pack(_pointer("PyThreadState_Get"))
    before = sys.getswitchinterval()
    try:
        _set_interval(canary)
        memory = _read_range(base)
    finally:
        _set_interval(round(before * 1e6))
    return set(_find_all(memory, pattern))


def _find_all(memory: bytes, pattern: bytes) -> Iterator[int]:
    at = memory.find(pattern)
    while at >= 0:
        if at % INTERVAL.size == 0:
            yield at
        at = memory.find(pattern, at + 1)


def _set_interval(microseconds: int) -> None:
    sys.setswitchinterval((microseconds + 0.5) / 1e6)  # CPython truncates it


def _read_range(base: int) -> bytes:
    """Read SEARCHED bytes from `base`, or fewer if the mapped memory ends.

    One large read leaves no memory behind in this process, many small ones do.
    """
    with suppress(OSError):
        return process_memory.read(base, SEARCHED)
    pages = [process_memory.read(base, PAGE)]
    with suppress(OSError):
        for offset in range(PAGE, SEARCHED, PAGE):
            pages.append(process_memory.read(base + offset, PAGE))
    return b"".join(pages)


def _find_difference(address: int) -> str | None:
    """Return how the fields differ from the GIL's behaviour; None if they agree.

    A thread that holds the GIL must read it as locked. A thread that released it must read it as
    free while no other thread computes. A short-lived thread must acquire it at least twice.
    """
    on = int(gil_state.enabled())
    locked, switches = _values(address, holding_gil=True)
    if locked != on:
        return f"locked reads {locked} while the GIL is {'held' if on else 'off'}"
    if all(_values(address, holding_gil=False)[0] for _ in range(TRIES)):
        return "locked is never 0 while the GIL is released"
    ended = allocate_lock()
    ended.acquire()
    start_new_thread(ended.release, ())
    ended.acquire()
    grown = _values(address, holding_gil=True)[1] - switches
    if on and not 2 <= grown < 1000:
        return f"the switch count grew by {grown} while two threads alternated"
    return None


def _values(address: int, holding_gil: bool) -> tuple[int, int]:
    locked, switches = LOCKED.unpack(process_memory.read(address, LOCKED.size, holding_gil))
    return locked, switches
