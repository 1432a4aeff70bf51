"""The interpreters of this machine: in PYTHONS, on PATH, of pyenv and uv, and in .pythons."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offload.errors import UsageError
from offload.registry import places

OWN = places.interpreters()  # interpreters that scripts/ made, and packages for any of them
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
SWITCHED = re.compile(r"(?P<name>.+)-(?P<state>gil|nogil)")


@dataclass(frozen=True)
class Python:
    """An interpreter: `name` is 3.14, or 3.14t for a free-threaded build; `source` who has it."""

    name: str
    path: str
    source: str
    version: str
    gil_enabled: bool


def find(word: str) -> str:
    """Give the path of the interpreter that `3.14`, `3.13t-nogil` or a path stands for.

    Raise UsageError when there is none, and for -gil or -nogil of a build that cannot switch.
    """
    path, switched = _path(word), SWITCHED.fullmatch(word)
    if path is None and switched is not None:
        path = _path(switched["name"])
        if path is not None and not (_asked(path) or {}).get("free_threaded"):
            fix = f"only a free-threaded build has -{switched['state']}, such as 3.13t"
            raise UsageError(f"the GIL of {switched['name']!r} cannot be switched: {fix}")
    if path is None:
        if NAME.fullmatch(word) and tuple(map(int, word.rstrip("t").split("."))) < LEAST:
            raise UsageError(f"python={word}: servers run in 3.11 or newer")
        fix = f"fab pythons says how to get it, or set PYTHONS={word}=/path/of/python"
        raise UsageError(f"no Python at {word!r}: {fix}")
    return path


def environment(word: str | None) -> dict[str, str]:
    """Give what an interpreter's word adds: PYTHON_GIL=1 by `3.13t-gil`, =0 by `3.13t-nogil`."""
    switched = SWITCHED.fullmatch(word or "")
    if switched is None or _path(switched[0]) is not None:  # a file may be called so
        return {}
    return {"PYTHON_GIL": "1" if switched["state"] == "gil" else "0"}


def present(words: Sequence[str]) -> list[str]:
    """Give the interpreters that are here, and say which are not; raise UsageError without any."""
    here: list[str] = []
    missing: list[UsageError] = []
    for word in words:
        try:
            find(word)
            here.append(word)
        except UsageError as error:
            missing.append(error)
    if not here:
        raise missing[0]
    for why in missing:
        print(f"left out: {why}", file=sys.stderr)
    return here


def _path(word: str) -> str | None:
    if (path := misnamed().get(word)) is not None:
        raise UsageError(f"no Python at {path!r}: fix PYTHONS")
    if (direct := _program(named().get(word, word))) is not None:
        return direct
    known = found() if NAME.fullmatch(word) else []
    return next((python.path for python in known if python.name == word), None)


def _program(word: str) -> str | None:
    direct = shutil.which(Path(word).expanduser())
    # a venv's python is a link that must not be resolved
    return None if direct is None else str(Path(direct).absolute())


def misnamed() -> dict[str, str]:
    """Give the names in PYTHONS at whose path no Python answers, with these paths."""
    programs = {name: _program(path) or path for name, path in named().items()}
    return {name: path for name, path in programs.items() if _asked(path) is None}


def named() -> dict[str, str]:
    """Give the paths that PYTHONS names, by name: 3.14=/path/of/python+3.14t=/path/of/another."""
    words = [word for word in os.environ.get("PYTHONS", "").split("+") if word]
    pairs = [word.partition("=") for word in words]
    if not all(name and path for name, _, path in pairs):
        raise UsageError("PYTHONS is written 3.14=/path/of/python+3.14t=/path/of/another")
    return {name: path for name, _, path in pairs}


def found() -> list[Python]:
    """Ask every interpreter there is for its version, newest first; the first of a name counts.

    A name that PYTHONS has for what is no Python stands for no other one.
    """
    by_name: dict[str, Python] = {}
    for source, path in _paths():
        facts = _asked(path)
        if facts is None or tuple(facts["version"]) < LEAST:
            continue
        major, minor, micro = facts["version"]
        name = f"{major}.{minor}{'t' if facts['free_threaded'] else ''}"
        version = f"{major}.{minor}.{micro}"
        by_name.setdefault(name, Python(name, path, source, version, facts["gil_enabled"]))
    here = [python for name, python in by_name.items() if name not in misnamed()]
    return sorted(here, key=lambda p: [int(n) for n in p.version.split(".")])[::-1]


def _paths() -> Iterator[tuple[str, str]]:
    """Give where interpreters are, those the user named first."""
    yield "this one", sys.executable
    for path in filter(None, map(_program, named().values())):
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


@functools.cache
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
