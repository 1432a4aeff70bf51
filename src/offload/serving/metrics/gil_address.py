"""The GIL word of this process: found once, checked, told to the bench. Standard library only.

CPython keeps one behind another: the switch interval (unsigned long, microseconds), the thread
state that held the GIL last (pointer), `locked` (int32) and how often it changed hands (unsigned
long). They are in `_PyRuntime` up to 3.11, in the interpreter's state since. This layout is
private: it is looked for by what is put into it, and what was found must behave as the GIL does.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

from offload.serving.metrics import gil_state, process_memory

CANARIES = (5003, 7919)  # us; no threads' turns are much longer for them
SEARCHED = 1 << 18  # bytes; a guess: from 3.11 to 3.13 it is within the first 8,000
PAGE = 4096
BEFORE = 16  # bytes from the interval to `locked`
TRIES = 50  # to see the GIL free: another thread may hold it at times

INTERVAL = struct.Struct("=Q")
LOCKED = struct.Struct("=i4xQ")


@dataclass(frozen=True)
class Word:
    """Where `locked` is: int32, 1 while the GIL is held; 8 bytes on is the switch count, uint64.

    `layout` names the state it was found in, and how many bytes from its begin.
    """

    pid: int
    address: int
    layout: str


def find() -> Word | str:
    """Find the GIL word of the interpreter that asks, or say in one line why it is not to be had.

    It takes some milliseconds. Ask while no other thread of this process computes.
    """
    if sys.platform != "linux":
        return f"no Linux but {sys.platform}"
    if sys.implementation.name != "cpython" or struct.calcsize("LP") != 16:
        return f"no CPython of 64 bits but {sys.implementation.name}"
    try:
        name, begin = _state()
        places = _places(begin, CANARIES[0]) & _places(begin, CANARIES[1])
        if len(places) != 1:
            return f"layout not recognised: {len(places)} places in the {name} look like the GIL"
        address = begin + places.pop() + BEFORE
        doubt = _doubt(address)
    except (OSError, AttributeError, ValueError) as error:  # no such call, or no such symbol
        return f"its own memory is not to be read: {error}"
    if doubt is not None:
        return f"layout not recognised: {doubt}"
    return Word(os.getpid(), address, f"{name}+{address - begin}")


def facts() -> dict[str, object]:
    """Give what the ready line says of it: the word, or None and why."""
    found = find()
    if isinstance(found, str):
        return {"gil_word": None, "gil_word_why": found}
    return {"gil_word": asdict(found)}


def _state() -> tuple[str, int]:
    if sys.version_info < (3, 12):
        return "runtime", ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    return "interpreter", _pointer("PyInterpreterState_Get")


def _pointer(function: str) -> int:
    call = ctypes.pythonapi[function]  # not by attribute: that one is shared with others
    call.restype = ctypes.c_void_p
    return int(call() or 0)


def _places(begin: int, canary: int) -> set[int]:
    """Set the switch interval to `canary`, list where it is kept, and put it back."""
    looked_for = INTERVAL.pack(canary)
    if gil_state.enabled():  # then this thread is the one that held it last
        looked_for += INTERVAL.pack(_pointer("PyThreadState_Get"))
    before = sys.getswitchinterval()
    try:
        _set_interval(canary)
        memory = _range(begin)
    finally:
        _set_interval(round(before * 1e6))
    return set(_found(memory, looked_for))


def _found(memory: bytes, looked_for: bytes) -> Iterator[int]:
    at = memory.find(looked_for)
    while at >= 0:
        if at % INTERVAL.size == 0:
            yield at
        at = memory.find(looked_for, at + 1)


def _set_interval(microseconds: int) -> None:
    sys.setswitchinterval((microseconds + 0.5) / 1e6)  # it is cut off, not rounded


def _range(begin: int) -> bytes:
    """Read on from `begin` until SEARCHED bytes are there, or memory ends."""
    pages = [process_memory.read(begin, PAGE)]
    with suppress(OSError):
        for offset in range(PAGE, SEARCHED, PAGE):
            pages.append(process_memory.read(begin + offset, PAGE))
    return b"".join(pages)


def _doubt(address: int) -> str | None:
    """Say what the word does that the GIL does not; None when it is as it should be.

    A thread that reads while it holds the GIL sees it locked; one that gave it up sees it free
    while no other thread computes; and a thread that comes and goes takes it at least twice.
    """
    on = int(gil_state.enabled())
    locked, switches = _values(address, holding_gil=True)
    if locked != on:
        return f"locked reads {locked} while the GIL is {'held' if on else 'off'}"
    if all(_values(address, holding_gil=False)[0] for _ in range(TRIES)):
        return "locked is never 0 while the GIL is released"
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    grown = _values(address, holding_gil=True)[1] - switches
    if on and not 2 <= grown < 1000:
        return f"the switch count grew by {grown} when two threads took turns"
    return None


def _values(address: int, holding_gil: bool) -> tuple[int, int]:
    locked, switches = LOCKED.unpack(process_memory.read(address, LOCKED.size, holding_gil))
    return locked, switches
