"""The interpreters that a case can name, and the packages that its server needs in one."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from offload.errors import MachineError, UsageError
from offload.registry import catalog, places, requirements
from offload.registry.application import is_application
from offload.suites import Case

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


# Packages for all servers and tasks. Further ones are in NEEDS of a server and PACKAGES of a task.
ALWAYS = ("tornado", "requests", "lxml", "feedparser", "tenacity", "cryptography")
# Installed only as wheels, because a build from source takes minutes.
ONLY_WHEELS = (
    "lxml,cryptography,granian,uvloop,httptools,gevent,numpy,pandas,pillow,bcrypt,argon2-cffi-bindings,"
    "regex,nh3,rapidfuzz,pydantic-core,orjson,msgpack,pyyaml,brotli,zstandard,sqlalchemy,greenlet"
)
INSTALL_TIMEOUT = 600.0  # s for one package
_failed: dict[str, set[str]] = {}  # by interpreter; only the next command retries them
OLDEST_PIP = (24, 1)  # an older pip installs wheels for normal builds in a free-threaded build


def environment_with_packages(
    python: str,
    needs: Sequence[str] = (),
    work: str = "",
    ours: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variable PYTHONPATH with which servers start in the interpreter `python`.

    If the interpreter has Tornado and the packages in `needs`, PYTHONPATH only adds `offload` and
    `pipepool`. Otherwise the required packages are installed into a folder for this interpreter
    under .pythons, in the versions and with the hashes of the lock. Packages that cannot be
    installed are reported and skipped, and a server that needs one does not start; the next command
    retries them. If `work` is a user's application, only
    the packages in `needs` are required, because the application has its own. `ours` is a
    PYTHONPATH to use instead of this checkout's. Raise MachineError if Tornado cannot be installed.
    """
    ours = dict(places.import_path(python) if ours is None else ours)
    if python == sys.executable:
        return ours
    always = () if is_application(work) else ALWAYS
    if _has(python, (*always[:1], *needs)):
        return ours
    folder = _packages_folder(python, always)
    listing = folder / "installed"
    known = listing.read_text().splitlines() if listing.exists() else []
    failed = _failed.setdefault(python, set())
    lines = requirements.pins(always) + requirements.pins(needs)
    if missing := [line for line in lines if line not in known and line not in failed]:
        installed = _install(python, folder, missing)
        folder.mkdir(parents=True, exist_ok=True)  # pip creates it only with a package
        listing.write_text("\n".join([*known, *installed]))
        failed.update(set(missing) - set(installed))
    return {"PYTHONPATH": f"{ours['PYTHONPATH']}:{folder}"}


def environment_for(case: Case, python: str) -> dict[str, str]:
    """Return `environment` for the packages that a case's server and its task import.

    If the case's origin is a virtual environment, it must have all of them: none is installed.
    """
    if case.origin is None:
        return environment_with_packages(python, needs_of(case), case.task)
    ours = places.import_path(python, case.origin.toolkit, case.origin.search)
    if case.origin.python is not None:
        return ours
    return environment_with_packages(python, needs_of(case), case.task, ours)


def needs_of(case: Case) -> tuple[str, ...]:
    """Return the packages that a case's server and its task import, by their import names."""
    server, task = catalog.find_server(case.server), catalog.find_task(case.task, case.path)
    return (*server.needs, *task.packages)


def _has(python: str, names: Sequence[str]) -> bool:
    return not names or _succeeds([python, "-P", "-c", f"import {', '.join(names)}"], 30)


def _packages_folder(python: str, always: Sequence[str]) -> Path:
    digest = hashlib.sha256(
        "\n".join([python, *requirements.lines_for(always)]).encode()
    ).hexdigest()[:8]
    return FOLDER / f"packages-{Path(python).name}-{digest}"


def _install(python: str, folder: Path, packages: Sequence[str]) -> list[str]:
    """Install packages one by one; return the successful ones."""
    print(f"installing {len(packages)} packages for {python}", file=sys.stderr)
    installed = [
        package for package in packages if _succeeds(_pip(python, folder, package), INSTALL_TIMEOUT)
    ]
    tornado = requirements.pins(ALWAYS[:1])[0]
    if tornado in packages and tornado not in installed:
        command = " ".join(_pip(python, folder, tornado))
        raise MachineError(f"{tornado} cannot be installed for {python}", command)
    if failed := [package for package in packages if package not in installed]:
        print(f"cannot be installed for {python}: {', '.join(failed)}", file=sys.stderr)
    return installed


def _pip(python: str, folder: Path, package: str) -> list[str]:
    """Return a command of this environment's pip for another interpreter, which may have none."""
    name, _, _ = package.partition("==")
    required = FOLDER / "requirements" / f"{name}.txt"
    required.parent.mkdir(parents=True, exist_ok=True)
    required.write_text("\n".join(requirements.locked(package)))
    pip = [*_our_pip(), "--python", python, "install", "--quiet"]
    options = ["--disable-pip-version-check", "--only-binary", ONLY_WHEELS, "--target", str(folder)]
    return [*pip, *options, "--upgrade", "--require-hashes", "-r", str(required)]


def _our_pip() -> list[str]:
    """Return the command of this environment's pip, or if it is too old, of one under .pythons."""
    ours = [sys.executable, "-m", "pip"]
    if _pip_version() >= OLDEST_PIP:
        return ours
    folder = FOLDER / "pip"
    if not folder.exists():
        newer = f"pip>={'.'.join(map(str, OLDEST_PIP))}"
        argv = [*ours, "install", "--quiet", "--target", str(folder), newer]
        if not _succeeds(argv, INSTALL_TIMEOUT):
            raise MachineError(f"a newer pip cannot be installed: {' '.join(argv)}")
    return [sys.executable, str(folder / "pip")]


def _pip_version() -> tuple[int, ...]:
    """Return the version of this environment's pip; raise MachineError if it has none."""
    try:
        found = re.match(r"(\d+)\.(\d+)", version("pip"))
    except PackageNotFoundError:
        raise no_pip() from None
    return () if found is None else tuple(map(int, found.groups()))


def no_pip() -> MachineError:
    """Return the error for an environment without pip, such as one of uv."""
    return MachineError("this environment has no pip", f"{sys.executable} -m ensurepip adds it")


def _succeeds(argv: list[str], timeout_s: float) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=timeout_s).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
