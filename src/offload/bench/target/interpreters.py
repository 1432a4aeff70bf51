"""Find Python interpreters: in PYTHONS, on PATH, in pyenv, uv and .pythons."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offload.errors import UsageError
from offload.registry import places

FOLDER = places.interpreters()  # interpreters built by scripts/, and packages for interpreters
OLDEST = (3, 11)
PROBE = """
import json, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
}))
"""
NAME = re.compile(r"3\.[0-9]{1,3}t?")
VERSION = re.compile(r"python3\.\d+t?|python3")
GIL_SUFFIX = re.compile(r"(?P<name>.+)-(?P<state>gil|nogil)")


@dataclass(frozen=True)
class Python:
    """An interpreter: `name` is 3.14, or 3.14t if free-threaded; `source` is where it was found."""

    name: str
    path: str
    source: str
    version: str
    gil_enabled: bool


def find(word: str) -> str:
    """Return the path of the interpreter `word`: `3.14`, `3.13t-nogil` or a path.

    Raise UsageError if it does not exist, or if -gil or -nogil is used with a normal build.
    """
    path, suffixed = _path(word), GIL_SUFFIX.fullmatch(word)
    if path is None and suffixed is not None:
        path = _path(suffixed["name"])
        if path is not None and not (_probe(path) or {}).get("free_threaded"):
            fix = f"use -{suffixed['state']} with a free-threaded build, such as 3.13t"
            raise UsageError(f"the GIL of {suffixed['name']!r} cannot be switched", fix)
    if path is None:
        if NAME.fullmatch(word) and tuple(map(int, word.rstrip("t").split("."))) < OLDEST:
            raise UsageError(f"python={word}: servers run in 3.11 or newer")
        fix = f"offload pythons shows how to install it, or set PYTHONS={word}=/path/of/python"
        raise UsageError(f"no Python at {word!r}", fix)
    return path


def environment(word: str | None) -> dict[str, str]:
    """Return the variable PYTHON_GIL: 1 for `3.13t-gil`, 0 for `3.13t-nogil`, else no variable."""
    suffixed = GIL_SUFFIX.fullmatch(word or "")
    if suffixed is None or _path(suffixed[0]) is not None:  # a path may end in -gil
        return {}
    return {"PYTHON_GIL": "1" if suffixed["state"] == "gil" else "0"}


def filter_installed(words: Sequence[str]) -> list[str]:
    """Return the installed interpreters and report missing ones on stderr.

    Raise UsageError if none is installed.
    """
    usable: list[str] = []
    missing: list[UsageError] = []
    for word in dict.fromkeys(words):
        try:
            find(word)
            usable.append(word)
        except UsageError as error:
            missing.append(error)
    if not usable:
        raise missing[0]
    for reason in missing:
        print(f"left out: {reason}", file=sys.stderr)
    return usable


def _path(word: str) -> str | None:
    if (path := broken_names().get(word)) is not None:
        raise UsageError(f"no Python at {path!r}", "fix PYTHONS")
    if (program := _program(user_paths().get(word, word))) is not None:
        return program
    known = find_all() if NAME.fullmatch(word) else []
    return next((python.path for python in known if python.name == word), None)


def _program(word: str) -> str | None:
    program = shutil.which(_expanded(word))
    # do not resolve links: the python of a venv is a link
    return None if program is None else str(Path(program).absolute())


def _expanded(text: str) -> Path:
    """Return a path with its ~ expanded, or unchanged if that user does not exist."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def broken_names() -> dict[str, str]:
    """Return the names and paths in PYTHONS that are not working interpreters."""
    programs = {name: _program(path) or path for name, path in user_paths().items()}
    return {name: path for name, path in programs.items() if _probe(path) is None}


def user_paths() -> dict[str, str]:
    """Return the paths in PYTHONS (3.14=/path/of/python+3.14t=/path/of/another) by name."""
    words = [word for word in os.environ.get("PYTHONS", "").split("+") if word]
    pairs = [word.partition("=") for word in words]
    if not all(name and path for name, _, path in pairs):
        raise UsageError("PYTHONS must have the form 3.14=/path/of/python+3.14t=/path/of/another")
    return {name: path for name, _, path in pairs}


def find_all() -> list[Python]:
    """Return all interpreters, newest first; for each name the first one of `_paths`.

    If the path of a name in PYTHONS is broken, no other interpreter with this name is returned.
    """
    by_name: dict[str, Python] = {}
    for source, path in _paths():
        facts = _probe(path)
        if facts is None or tuple(facts["version"]) < OLDEST:
            continue
        major, minor, micro = facts["version"]
        name = f"{major}.{minor}{'t' if facts['free_threaded'] else ''}"
        version = f"{major}.{minor}.{micro}"
        by_name.setdefault(name, Python(name, path, source, version, facts["gil_enabled"]))
    usable = [python for name, python in by_name.items() if name not in broken_names()]
    return sorted(usable, key=lambda p: [int(n) for n in p.version.split(".")])[::-1]


def _paths() -> Iterator[tuple[str, str]]:
    """Yield the source and path of each interpreter, in the order of precedence."""
    yield "this one", sys.executable
    for path in filter(None, map(_program, user_paths().values())):
        yield "PYTHONS", path
    for folder_name in os.environ.get("PATH", "").split(os.pathsep):
        for program in sorted(Path(folder_name).glob("python3*")):
            if VERSION.fullmatch(program.name):
                yield "PATH", str(program)
    pyenv = _expanded(os.environ.get("PYENV_ROOT", "~/.pyenv"))
    uv = _expanded(os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python"))
    for source, folders in (
        (".pythons", FOLDER.glob("*/bin")),
        ("pyenv", pyenv.glob("versions/*/bin")),
        ("uv", uv.glob("*/bin")),
    ):
        with suppress(PermissionError):  # the folder of another user
            for folder in sorted(folders, reverse=True):
                if (folder / "python3").exists():
                    yield source, str(folder / "python3")


@functools.cache
def _probe(path: str) -> dict[str, Any] | None:
    """Run an interpreter and return its facts; None if it fails."""
    try:
        process = subprocess.run(
            [path, "-I", "-c", PROBE], capture_output=True, text=True, timeout=10, check=True
        )
        facts: dict[str, Any] = json.loads(process.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return facts
