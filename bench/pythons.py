"""The interpreters of this machine: in PYTHONS, on PATH, of pyenv and uv, and in .pythons."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import catalog
from errors import UsageError

OWN = catalog.ROOT / ".pythons"  # interpreters that scripts/ made, and packages for any of them
LEAST = (3, 11)
ASK = """
import json, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
}))
"""
NAME = re.compile(r"3\.\d+t?")
VERSION = re.compile(r"python3\.\d+t?|python3")


@dataclass(frozen=True)
class Python:
    """An interpreter: `name` is 3.14, or 3.14t for a free-threaded build; `source` who has it."""

    name: str
    path: str
    source: str
    version: str
    gil_enabled: bool


def find(word: str) -> str:
    """Give the path of the interpreter that `3.14`, `3.14t` or a path stands for.

    PYTHONS names interpreters once: PYTHONS=3.14=/opt/python3.14/bin/python+3.14t=... Raise
    UsageError when there is none.
    """
    path = named().get(word, word)
    direct = shutil.which(Path(path).expanduser())
    if direct is not None:
        return str(Path(direct).absolute())  # a venv's python is a link that must not be resolved
    for python in found() if NAME.fullmatch(word) else ():
        if python.name == word:
            return python.path
    if NAME.fullmatch(word) and tuple(map(int, word.rstrip("t").split("."))) < LEAST:
        raise UsageError(f"python={word}: servers run in 3.11 or newer")
    fix = f"fab pythons says how to get it, or set PYTHONS={word}=/path/of/python"
    raise UsageError(f"no Python at {path!r}: {fix}")


def named() -> dict[str, str]:
    """Give the paths that PYTHONS names, by name; raise UsageError when it cannot be read."""
    words = [word for word in os.environ.get("PYTHONS", "").split("+") if word]
    pairs = [word.partition("=") for word in words]
    if not all(name and path for name, _, path in pairs):
        raise UsageError("PYTHONS is written 3.14=/path/of/python+3.14t=/path/of/another")
    return {name: path for name, _, path in pairs}


def found() -> list[Python]:
    """Ask every interpreter there is for its version, newest first; the first of a name counts."""
    by_name: dict[str, Python] = {}
    for source, path in _paths():
        facts = _asked(path)
        if facts is None or tuple(facts["version"]) < LEAST:
            continue
        major, minor, micro = facts["version"]
        name = f"{major}.{minor}{'t' if facts['free_threaded'] else ''}"
        version = f"{major}.{minor}.{micro}"
        by_name.setdefault(name, Python(name, path, source, version, facts["gil_enabled"]))
    return sorted(by_name.values(), key=lambda p: [int(n) for n in p.version.split(".")])[::-1]


def _paths() -> Iterator[tuple[str, str]]:
    """Give where interpreters are, those the user named first."""
    yield "this one", sys.executable
    for path in named().values():
        yield "PYTHONS", path
    for place in os.environ.get("PATH", "").split(os.pathsep):
        for program in sorted(Path(place).glob("python3*")):
            if VERSION.fullmatch(program.name):
                yield "PATH", str(program)
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python")).expanduser()
    for source, folders in (
        (".pythons", OWN.glob("*/bin")),
        ("pyenv", pyenv.glob("versions/*/bin")),
        ("uv", uv.glob("*/bin")),
    ):
        for folder in sorted(folders, reverse=True):
            if (folder / "python3").exists():
                yield source, str(folder / "python3")


def _asked(path: str) -> dict[str, Any] | None:
    """Ask an interpreter what it is; None when it does not answer."""
    try:
        said = subprocess.run(
            [path, "-I", "-c", ASK], capture_output=True, text=True, timeout=10, check=True
        )
        facts: dict[str, Any] = json.loads(said.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return facts
