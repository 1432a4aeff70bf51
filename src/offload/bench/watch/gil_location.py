"""Find the GILs of another process in its memory.

Since 3.13 a build publishes the offsets of its structures: `_Py_DebugOffsets`, the first member of
`_PyRuntime`, starts with the cookie "xdebugpy" and the version. The layout of this structure
differs between versions: 3.14 added a field before those of the GIL. So the fields of the GIL are
found by the relations of their values: the offset of `_gil` in the interpreter state, and the
offsets of `locked` and `last_holder`.

CPython 3.11 and 3.12 publish no offsets. They are known from Include/internal/pycore_runtime.h and
pycore_interp.h on a 64-bit machine, and are the same in all releases of a version. In all versions
the fields are checked before they are used: the switch interval, and `locked`, which is 0 or 1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.watch import remote_memory
from offload.bench.watch.python_runtime import Runtime
from offload.bench.watch.remote_memory import (
    STARTING,
    UNSUPPORTED,
    WITHOUT_GIL,
    Unreadable,
    read_u64,
)

COOKIE = b"xdebugpy"
HEAD = struct.Struct("=8sQQ")  # cookie, version, whether the build is free-threaded
RUNTIME_WORDS, INTERPRETER_WORDS = 3, 24  # size, finalizing, interpreters_head; size, id, next, ...
PUBLISHED = struct.Struct(f"={RUNTIME_WORDS + INTERPRETER_WORDS}Q")
FIELDS = struct.Struct("=QQi4x")  # of the GIL: interval, last_holder, locked
LOCKED = 16  # bytes from the interval to `locked`
LONGEST_INTERVAL = 60_000_000  # us; the default is 5,000
CHECKS = 20  # readings of `locked` before it is used
MOST_INTERPRETERS = 1000


@dataclass(frozen=True)
class Layout:
    """The offsets in bytes of fields in the structures of a Python version.

    `interpreters` is the offset in the runtime of the pointer to the first interpreter.
    `interpreter_id`, `next_interpreter`, `gil_pointer` and `own_gil` are offsets in the interpreter
    state. The last two are those of the pointer to the interpreter's GIL, and of its own GIL, which
    it does not use if it shares the GIL of another interpreter. In 3.11 both are None: the only GIL
    is in the runtime, at `gil_in_runtime`. `enabled` and `locked` are offsets in the GIL.
    """

    version: int
    free_threaded: bool
    interpreters: int
    interpreter_id: int
    next_interpreter: int
    gil_pointer: int | None = None
    own_gil: int | None = None
    gil_in_runtime: int | None = None
    enabled: int = 0
    locked: int = LOCKED

    @property
    def version_name(self) -> str:
        """The version, such as 3.13.5."""
        return version_name(self.version)


UNPUBLISHED = {
    (3, 11): {"interpreters": 40, "interpreter_id": 48, "gil_in_runtime": 360},
    (3, 12): {"interpreters": 40, "interpreter_id": 8, "gil_pointer": 384, "own_gil": 1040},
}


@dataclass(frozen=True)
class Gils:
    """The addresses of `locked` of each GIL of a process; empty if a free-threaded GIL is off."""

    version: str
    free_threaded: bool
    addresses: tuple[int, ...]


def version_name(number: int) -> str:
    """Return 3.13.5 for PY_VERSION_HEX 0x030d05f0."""
    return ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8))


def layout(runtime: Runtime) -> Layout:
    """Return the layout that a process publishes, or the known layout of its version.

    Raise Unreadable if there is none, or if it is not plausible.
    """
    cookie, version, free_threaded = HEAD.unpack(
        remote_memory.read(runtime.pid, runtime.address, HEAD.size)
    )
    exported = None
    if runtime.version_address is not None:
        exported = read_u64(runtime.pid, runtime.version_address) & 0xFFFFFFFF
    if cookie != COOKIE:
        return _unpublished(runtime, exported)
    if exported not in (None, version) or free_threaded > 1:
        raise _unknown(runtime, "its debug offsets are of another version")
    words = PUBLISHED.unpack(
        remote_memory.read(runtime.pid, runtime.address + HEAD.size, PUBLISHED.size)
    )
    return _published(runtime, version, bool(free_threaded), words)


def _published(runtime: Runtime, version: int, free_threaded: bool, words: Sequence[int]) -> Layout:
    """Return the layout from the published `words`; raise Unreadable unless exactly one fits.

    Five consecutive words describe the GIL: the pointer to it, the interpreter's own GIL, and its
    fields `enabled`, `locked` and `last_holder`. `enabled` is an offset in the GIL, and the others
    are offsets in the interpreter state. `place` is the index of the second of these words.
    """
    head, interpreter = words[RUNTIME_WORDS - 1], words[RUNTIME_WORDS:]
    size, interpreter_id, next_interpreter = interpreter[:3]
    # Bytes from the GIL to `last_holder`: a free-threaded build has `enabled` before the interval.
    before_holder = LOCKED if free_threaded else LOCKED - 8
    places = [
        place
        for place in range(4, INTERPRETER_WORDS - 3)
        if interpreter[place] + before_holder == interpreter[place + 3]
        and interpreter[place + 3] + 8 == interpreter[place + 2]
        and interpreter[place + 1] < before_holder
        and max(interpreter[place - 1 : place + 4]) < size
    ]
    if len(places) != 1 or max(interpreter_id, next_interpreter) >= size or head >= words[0]:
        raise _unknown(runtime, f"its debug offsets fit {len(places)} layouts")
    pointer, own, enabled, locked = interpreter[places[0] - 1 : places[0] + 3]
    return Layout(
        version=version,
        free_threaded=free_threaded,
        interpreters=head,
        interpreter_id=interpreter_id,
        next_interpreter=next_interpreter,
        gil_pointer=pointer,
        own_gil=own,
        enabled=enabled,
        locked=locked - own,
    )


def _unpublished(runtime: Runtime, version: int | None) -> Layout:
    if version is None:
        message = f"pid {runtime.pid} is a Python older than 3.11, whose GIL is not read"
        raise Unreadable(UNSUPPORTED, message, WITHOUT_GIL)
    known = UNPUBLISHED.get((version >> 24, version >> 16 & 0xFF))
    if known is None:
        raise _unknown(runtime, f"Python {version_name(version)} publishes no debug offsets")
    return Layout(version=version, free_threaded=False, next_interpreter=0, **known)


def locate(runtime: Runtime, layout: Layout) -> Gils:
    """Return the current GILs of a process; raise Unreadable.

    They change when interpreters start or end, and when an import enables the GIL of a
    free-threaded build.
    """
    gils = _gils(runtime, layout)
    if layout.free_threaded:
        enabled = (remote_memory.read(runtime.pid, gil + layout.enabled, 4) for gil in gils)
        gils = [gil for gil, is_on in zip(gils, enabled, strict=True) if any(is_on)]
    addresses = tuple(gil + layout.locked for gil in gils)
    return Gils(layout.version_name, layout.free_threaded, addresses)


def check(runtime: Runtime, gils: Gils) -> None:
    """Raise Unreadable if the values of the fields are impossible for a GIL."""
    for address in gils.addresses:
        for _ in range(CHECKS):
            fields = remote_memory.read(runtime.pid, address - LOCKED, FIELDS.size)
            interval, _holder, locked = FIELDS.unpack(fields)
            if not 1 <= interval <= LONGEST_INTERVAL or locked not in (0, 1):
                raise _unknown(runtime, f"its GIL has interval {interval} and locked {locked}")


def _gils(runtime: Runtime, layout: Layout) -> list[int]:
    """Return the addresses of the GILs of all interpreters, the main interpreter's first."""
    found: list[int] = []
    main = None
    interpreter = read_u64(runtime.pid, runtime.address + layout.interpreters)
    for _ in range(MOST_INTERPRETERS):
        if not interpreter:
            break
        is_main = read_u64(runtime.pid, interpreter + layout.interpreter_id) == 0
        if layout.gil_in_runtime is not None:
            gil = runtime.address + layout.gil_in_runtime
        else:
            gil = read_u64(runtime.pid, interpreter + (layout.gil_pointer or 0))
        if is_main and layout.own_gil is not None and gil not in (0, interpreter + layout.own_gil):
            raise _unknown(runtime, "its main interpreter does not have its own GIL")
        main = gil if is_main else main
        if gil and gil not in found:
            found.append(gil)
        interpreter = read_u64(runtime.pid, interpreter + layout.next_interpreter)
    if not main:
        raise Unreadable(STARTING, f"pid {runtime.pid} has no interpreter yet, or no longer")
    return sorted(found, key=lambda gil: gil != main)


def _unknown(runtime: Runtime, why: str) -> Unreadable:
    return Unreadable(
        UNSUPPORTED, f"the GIL of pid {runtime.pid} is not where expected ({why})", WITHOUT_GIL
    )
