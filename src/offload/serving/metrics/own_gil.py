"""The GIL of this process: whether it is enabled, which import enabled it, and its address.

A free-threaded build enables the GIL when it imports a module that does not declare support for
running without it, unless PYTHON_GIL=0. Python warns once, and the GIL stays enabled.

The address is found once and verified. CPython stores these fields in sequence: the switch interval
(unsigned long, microseconds), the thread state that last held the GIL (pointer), `locked` (int32)
and the number of switches (unsigned long). They are in `_PyRuntime` up to 3.11, in the interpreter
state since 3.12. The layout is private: the search looks for a known switch interval, and the
fields found must behave like the GIL. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
import sys
import sysconfig
import warnings
from _thread import allocate_lock, start_new_thread  # real threads, also where gevent replaces them
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

WARNING = re.compile(r"The global interpreter lock \(GIL\) has been enabled to load module '(.+?)'")
FROM_THE_START = ""
enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
_enabled_by = FROM_THE_START
_is_watched = False


def enabled_by() -> str | None:
    """Return None while the GIL is disabled, else the module that enabled it ("" if none)."""
    return _enabled_by if enabled() else None


def watch_gil() -> None:
    """Watch for Python's warning that the GIL was enabled, and record the module it names."""
    global _is_watched
    if enabled() or _is_watched:
        return
    _is_watched = True
    warnings.filterwarnings("always", WARNING.pattern)
    show = warnings.showwarning

    def read_and_show(message: Warning | str, *more: Any) -> None:
        global _enabled_by
        if found := WARNING.match(str(message)):
            _enabled_by = found[1]
        show(message, *more)

    setattr(warnings, "showwarning", read_and_show)  # noqa: B010 - mypy forbids the assignment


def interpreter() -> dict[str, object]:
    """Describe this interpreter and the current state of its GIL."""
    jit = getattr(sys, "_jit", None)
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "gil_enabled": enabled(),
        "free_threaded_build": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "python_gil": os.environ.get("PYTHON_GIL"),
        "switch_interval_s": sys.getswitchinterval(),
        "jit": jit.is_enabled() if jit is not None else None,
    }


# Its address
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


def find_address() -> GilAddress | str:
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


def address_facts() -> dict[str, object]:
    """Return the facts for the ready line: the address, or None and the reason."""
    found = find_address()
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
    if enabled():  # then this thread is the last holder
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
        return read_memory(base, SEARCHED)
    pages = [read_memory(base, PAGE)]
    with suppress(OSError):
        for offset in range(PAGE, SEARCHED, PAGE):
            pages.append(read_memory(base + offset, PAGE))
    return b"".join(pages)


def _find_difference(address: int) -> str | None:
    """Return how the fields differ from the GIL's behaviour; None if they agree.

    A thread that holds the GIL must read it as locked. A thread that released it must read it as
    free while no other thread computes. A short-lived thread must acquire it at least twice.
    """
    on = int(enabled())
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
    locked, switches = LOCKED.unpack(read_memory(address, LOCKED.size, holding_gil))
    return locked, switches


# A process's own memory, read by a system call: a wrong address is an error, not a crash
# A call through PyDLL keeps the GIL; a call through CDLL releases it.
_holding = ctypes.PyDLL(None, use_errno=True)
_releasing = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


def read_memory(address: int, size: int, holding_gil: bool = True) -> bytes:
    """Read `size` bytes; raise OSError if they are unreadable, AttributeError outside Linux.

    With `holding_gil` the calling thread holds the GIL while it reads, else it releases it.
    """
    buffer = ctypes.create_string_buffer(size)
    here, there = _Range(ctypes.addressof(buffer), size), _Range(address, size)
    call = (_holding if holding_gil else _releasing)["process_vm_readv"]
    call.restype = ctypes.c_ssize_t
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if call(os.getpid(), ctypes.byref(here), one, ctypes.byref(there), one, none) != size:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return buffer.raw
