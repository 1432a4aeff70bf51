"""Find the runtime of CPython in another process: the address of `_PyRuntime`.

The symbol is in the executable, or in libpython if Python is built with a shared library. Since
3.13 the runtime is in the section .PyRuntime, by which it is found in a build without symbols.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offload.bench.watch import remote_memory
from offload.bench.watch.remote_memory import NOT_PYTHON, UNSUPPORTED, WITHOUT_GIL, Unreadable
from offload.errors import MachineError

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


def find(pid: int) -> Runtime:
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
        raise remote_memory.explain(pid, error.errno or 0) from error
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
        raise remote_memory.explain(pid, error.errno or 0) from error


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
