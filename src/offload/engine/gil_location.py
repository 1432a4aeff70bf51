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

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from offload.errors import MachineError, RunError, UsageError, UserError, escaped

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
        read_memory(runtime.pid, runtime.address, HEAD.size)
    )
    exported = None
    if runtime.version_address is not None:
        exported = read_u64(runtime.pid, runtime.version_address) & 0xFFFFFFFF
    if cookie != COOKIE:
        return _unpublished(runtime, exported)
    if exported not in (None, version) or free_threaded > 1:
        raise _unknown(runtime, "its debug offsets are of another version")
    words = PUBLISHED.unpack(read_memory(runtime.pid, runtime.address + HEAD.size, PUBLISHED.size))
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
        enabled = (read_memory(runtime.pid, gil + layout.enabled, 4) for gil in gils)
        gils = [gil for gil, is_on in zip(gils, enabled, strict=True) if any(is_on)]
    addresses = tuple(gil + layout.locked for gil in gils)
    return Gils(layout.version_name, layout.free_threaded, addresses)


def check(runtime: Runtime, gils: Gils) -> None:
    """Raise Unreadable if the values of the fields are impossible for a GIL."""
    for address in gils.addresses:
        for _ in range(CHECKS):
            fields = read_memory(runtime.pid, address - LOCKED, FIELDS.size)
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


# Find the runtime of CPython in another process: the address of `_PyRuntime`.
#
# The symbol is in the executable, or in libpython if Python is built with a shared library. Since
# 3.13 the runtime is in the section .PyRuntime, by which it is found in a build without symbols.


RUNTIME, VERSION, SECTION = "_PyRuntime", "Py_Version", ".PyRuntime"
DELETED = " (deleted)"
PAGE = os.sysconf("SC_PAGE_SIZE")

# The symbols of a file, and the offset and address of each of its segments, in whole pages.
Elf = tuple[Mapping[str, int], tuple[tuple[int, int], ...]]

_files: dict[tuple[int, int, int], Elf] = {}  # by device, inode and time of modification


@dataclass(frozen=True)
class Runtime:
    """The address of `_PyRuntime` in a process, and of `Py_Version` if the build exports it."""

    pid: int
    address: int
    version_address: int | None


@dataclass(frozen=True)
class MappedFile:
    """The first mapping of a file in a process: where it starts, and at which offset of the file.

    `place` is a path by which this process can open the file, also if it is in a container.
    """

    path: str
    place: str
    start: int
    offset: int


def find_runtime(pid: int) -> Runtime:
    """Return the runtime of the Python in a process; raise Unreadable."""
    files = _mapped_files(pid)
    for file in files:
        found = _addresses(file)
        if RUNTIME in found:
            return Runtime(pid, found[RUNTIME], found.get(VERSION))
    raise _explain(pid, files)


def _mapped_files(pid: int) -> list[MappedFile]:
    """Return libpython and the executable, as far as the process has them."""
    try:
        text = os.fsdecode(Path(f"/proc/{pid}/maps").read_bytes())
    except OSError as error:
        raise explain_refusal(pid, error.errno or 0) from error
    executable = _executable(pid)
    found: dict[str, MappedFile] = {}
    for line in text.split("\n"):  # a name may have any other character, such as a form feed
        words = line.split(maxsplit=5)
        if len(words) < 6 or words[5] in found:
            continue
        path, start = words[5], int(words[0].partition("-")[0], 16)
        if path == executable:
            place = f"/proc/{pid}/exe"
        elif Path(path).name.startswith("libpython"):
            is_deleted = path.endswith(DELETED)
            place = f"/proc/{pid}/" + (f"map_files/{words[0]}" if is_deleted else f"root{path}")
        else:
            continue
        found[path] = MappedFile(path, place, start, int(words[2], 16))
    return sorted(found.values(), key=lambda file: file.path == executable)


def _executable(pid: int) -> str:
    """Return the path of a process's program as its mappings name it; "" if it has none."""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except FileNotFoundError:  # a thread of the kernel, or it has ended
        return ""
    except OSError as error:
        raise explain_refusal(pid, error.errno or 0) from error


def _addresses(file: MappedFile) -> Mapping[str, int]:
    """Return the addresses of the symbols in the process that mapped `file`."""
    try:
        state = Path(file.place).stat()
        identity = state.st_dev, state.st_ino, state.st_mtime_ns
        if identity not in _files:
            _files[identity] = _read_elf(file.place)
        symbols, segments = _files[identity]
    except OSError as error:
        message = f"{file.path} cannot be opened ({error.strerror})"
        raise Unreadable(UNSUPPORTED, message, "run watch as root, or restart it") from error
    for offset, address in segments:
        if offset == file.offset:
            return {name: file.start - address + value for name, value in symbols.items()}
    return {}


def _read_elf(place: str) -> Elf:
    """Return the symbols and segments of a file; both are empty if it is no valid ELF file."""
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        remedy = f"{sys.executable} -m pip install pyelftools"
        raise MachineError("watch needs pyelftools", remedy) from error
    with Path(place).open("rb") as stream:
        try:
            elf = ELFFile(stream)
            segments = tuple(
                (segment["p_offset"] // PAGE * PAGE, segment["p_vaddr"] // PAGE * PAGE)
                for segment in elf.iter_segments("PT_LOAD")
            )
            return dict(_symbols(elf)), segments
        except OSError:
            raise
        except Exception:  # noqa: BLE001 - the parser may raise anything for a damaged file
            return {}, ()


def _symbols(elf: Any) -> Iterator[tuple[str, int]]:
    names = {RUNTIME, VERSION}
    if (section := elf.get_section_by_name(SECTION)) is not None:
        yield RUNTIME, section["sh_addr"]
        names.discard(RUNTIME)
    if (table := elf.get_section_by_name(".gnu.hash")) is not None:  # faster than all symbols
        for name in sorted(names):
            if (symbol := table.get_symbol(name)) is not None:
                yield name, symbol["st_value"]
                names.discard(name)
        if RUNTIME not in names:
            return
    tables = [elf.get_section_by_name(".symtab"), *elf.iter_segments("PT_DYNAMIC")]
    for table in tables:
        for symbol in table.iter_symbols() if table is not None else ():
            if symbol.name in names and symbol["st_shndx"] != "SHN_UNDEF":
                yield symbol.name, symbol["st_value"]


def _explain(pid: int, files: list[MappedFile]) -> Unreadable:
    """Return why no runtime was found in the files of a process."""
    name = Path(files[-1].path).name if files else "a thread of the kernel, or about to end"
    if name.startswith("pypy"):
        return Unreadable(UNSUPPORTED, f"pid {pid} is PyPy, whose GIL is not read", WITHOUT_GIL)
    if len(files) > 1 or name.startswith("python"):
        message = f"pid {pid} ({name}) is a Python without the symbol {RUNTIME}"
        return Unreadable(UNSUPPORTED, message, WITHOUT_GIL)
    remedy = f"use the pid of the Python server; {WITHOUT_GIL}"
    return Unreadable(NOT_PYTHON, f"pid {pid} ({name}) is not a Python process", remedy)


YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
DEFAULT_SCOPE = "sudo sysctl kernel.yama.ptrace_scope=0, or run watch with sudo"
WITHOUT_GIL = "without_gil=yes watches the rest"  # a remedy for GILs that cannot be read

# Kinds of reasons for which a GIL cannot be read:
REFUSED = "refused"  # the kernel does not permit it
ENDED = "ended"  # the process has ended
STARTING = "starting"  # its interpreter does not exist yet
NOT_PYTHON = "not python"
UNSUPPORTED = "unsupported"  # another Python than CPython 3.11 or newer, or an unknown build

_ERRORS: dict[str, type[UserError]] = {
    REFUSED: MachineError,
    ENDED: RunError,
    STARTING: RunError,
    NOT_PYTHON: UsageError,
    UNSUPPORTED: MachineError,
}


class Unreadable(Exception):
    """The GIL of a process cannot be read: the kind of the reason, one line, and what to do.

    Control characters are escaped, because the program of a process may have any name.
    """

    def __init__(self, kind: str, message: str, remedy: str = "") -> None:
        message = escaped(message)
        super().__init__(f"{message}: {remedy}" if remedy else message)
        self.kind, self.message, self.remedy = kind, message, remedy

    def as_user_error(self) -> UserError:
        """Return the error with the exit code of this kind of reason."""
        return _ERRORS[self.kind](self.message, self.remedy)


class _Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


_library = ctypes.CDLL(None, use_errno=True)


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Return `size` bytes of a process's memory; raise Unreadable.

    The kernel copies them. The process is neither stopped nor changed.
    """
    buffer = ctypes.create_string_buffer(size)
    here, there = _Range(ctypes.addressof(buffer), size), _Range(address, size)
    try:
        call = _library["process_vm_readv"]
    except AttributeError:
        reason = "process_vm_readv exists only on Linux"
        raise Unreadable(UNSUPPORTED, reason, "run watch on Linux") from None
    call.restype = ctypes.c_ssize_t
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if call(pid, ctypes.byref(here), one, ctypes.byref(there), one, none) != size:
        raise explain_refusal(pid, ctypes.get_errno())
    return buffer.raw


def read_u64(pid: int, address: int) -> int:
    """Return an unsigned number of 64 bits, such as a pointer; raise Unreadable."""
    return int(struct.unpack("=Q", read_memory(pid, address, 8))[0])


def explain_refusal(pid: int, number: int) -> Unreadable:
    """Return the reason for which the system refused to read from a process, by its errno."""
    if number in (errno.ESRCH, errno.ENOENT) or not psutil.pid_exists(pid):
        return Unreadable(ENDED, f"pid {pid} has ended")
    if number in (errno.EPERM, errno.EACCES):
        return _refusal(pid)
    if number == errno.ENOSYS:
        return Unreadable(UNSUPPORTED, "the kernel has no process_vm_readv", "run watch elsewhere")
    message = f"the memory of pid {pid} cannot be read ({os.strerror(number)})"
    return Unreadable(UNSUPPORTED, message, WITHOUT_GIL)


def _refusal(pid: int) -> Unreadable:
    """Return why the kernel denies access: the user, Yama's setting, or the process's rights."""
    what = f"the memory of pid {pid} may not be read"
    try:
        owner = psutil.Process(pid).uids().real
    except psutil.Error:
        return Unreadable(ENDED, f"pid {pid} has ended")
    if os.geteuid() not in (0, owner):
        who = _user_name(pid, owner)
        return Unreadable(REFUSED, f"{what}: it belongs to {who}", "run watch as that user or root")
    try:
        scope = int(YAMA.read_text())
    except (OSError, ValueError):
        scope = 0
    if scope and os.geteuid() != 0:
        return Unreadable(REFUSED, f"{what} (kernel.yama.ptrace_scope is {scope})", DEFAULT_SCOPE)
    remedy = "run watch as root, in a container with --cap-add=SYS_PTRACE"
    return Unreadable(REFUSED, f"{what}: the system denies access", remedy)


def _user_name(pid: int, owner: int) -> str:
    try:
        return f"user {psutil.Process(pid).username()}"
    except psutil.Error:
        return f"user {owner}"
