"""Folders, the import path of other Pythons, and what installs missing packages."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from offload.errors import MachineError

PACKAGE = Path(__file__).resolve().parents[1]


def _checkout() -> Path | None:
    root = PACKAGE.parents[1]
    return root if PACKAGE.parent.name == "src" and (root / "fabfile.py").is_file() else None


CHECKOUT = _checkout()  # None if the toolkit is installed from a wheel
_has_full_names = ContextVar("_has_full_names", default=False)


def cache() -> Path:
    """Return the folder for downloaded and generated files: .data in a checkout, else ~/.cache.

    Raise MachineError if this user has no home.
    """
    if CHECKOUT is not None:
        return CHECKOUT / ".data"
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        raise MachineError("this user has no home folder", "set HOME or XDG_CACHE_HOME") from None
    return home / "offload"


def task_folder(path: str | None = None) -> Path:
    """Return the import folder of a user's task: `path`, TASK_PATH or the current folder."""
    return Path(path or os.environ.get("TASK_PATH") or ".").expanduser().absolute()


def interpreters() -> Path:
    """Return the folder of interpreters built by scripts/, and of packages for interpreters."""
    return cache() / "pythons" if CHECKOUT is None else CHECKOUT / ".pythons"


def display_path(path: Path) -> Path:
    """Return a path as it is displayed: relative to the checkout if the path is inside it."""
    real = path.parent.resolve() / path.name
    if CHECKOUT is None or not real.is_relative_to(CHECKOUT):
        return path
    return real.relative_to(CHECKOUT)


def display_name(task: str) -> str:
    """Return the name of a task as it is displayed: its file relative to the current folder.

    Inside `full_names`, the name is unchanged.
    """
    return task if _has_full_names.get() else task.replace(f"{Path.cwd()}{os.sep}", "")


@contextmanager
def full_names() -> Iterator[None]:
    """Let `display_name` return full names, so that a file does not depend on the folder."""
    token = _has_full_names.set(True)
    try:
        yield
    finally:
        _has_full_names.reset(token)


def import_path(
    python: str = sys.executable, toolkit: str | None = None, search: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variable PYTHONPATH with which an interpreter imports `offload` and `pipepool`.

    They are imported from the checkout `toolkit`, or from this one. The folders `search` follow,
    and then the user's own PYTHONPATH without empty entries, which mean the current folder.
    """
    checkout = CHECKOUT if toolkit is None else Path(toolkit)
    if checkout is not None:
        ours = [checkout / "src", checkout / "pipepool" / "src"]
    elif python != sys.executable:
        ours = [_linked_packages()]
    else:
        ours = []
    theirs = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = dict.fromkeys([*map(str, ours), *search, *(entry for entry in theirs if entry)])
    return {"PYTHONPATH": os.pathsep.join(found)} if found else {}


def _linked_packages() -> Path:
    """Return a folder with links to `offload` and `pipepool` only.

    Another interpreter must not import from this one's site-packages.
    """
    import pipepool

    folder = cache() / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    for package in (PACKAGE, Path(pipepool.__file__).resolve().parent):
        link = folder / package.name
        if not link.is_symlink() or link.readlink() != package:
            new = folder / f".{package.name}.{os.getpid()}"
            new.unlink(missing_ok=True)
            new.symlink_to(package)
            new.replace(link)
    return folder


# The packages that servers, tasks and reports import: what installs them, with which hashes
# Both files are in the wheel, too.
_FOLDER = CHECKOUT or PACKAGE
PROJECT = _FOLDER / "pyproject.toml"
LOCK = _FOLDER / "requirements.lock"
TARGETS = {  # the target of make that installs each extra or group
    "suites": "suites",
    "cluster": "suites",
}
PROVIDED_BY = {  # import name: the name of the package that installs it
    "PIL": "pillow",
    "argon2": "argon2_cffi",
    "dateutil": "python_dateutil",
    "h11": "uvicorn",
    "jwt": "pyjwt",
    "starlette": "fastapi",
    "strawberry": "strawberry_graphql",
    "strawberry_django": "strawberry_graphql_django",
    "yaml": "pyyaml",
}


def lines_for(needs: Sequence[str]) -> list[str]:
    """Return the requirements, with lowest versions, that install the packages in `needs`."""
    known = {name: line for lines in _required().values() for name, line in lines.items()}
    return [line for name, line in known.items() if name in _package_names(needs)]


def install_command(needs: Sequence[str]) -> str:
    """Return the command that installs the packages in `needs`."""
    names = _package_names(needs)
    targets: dict[str, str] = {}
    for target, provided in _required().items():
        targets.update({name: target for name in names if name in provided.keys() - targets.keys()})
    if CHECKOUT is not None and all(name in targets for name in names):
        used = set(targets.values()) - {"setup"}  # the others run it
        return f"make {' '.join(sorted(used, reverse=True)) or 'setup'}"
    return f"{sys.executable} -m pip install {' '.join(names)}"


def pins(needs: Sequence[str]) -> list[str]:
    """Return the locked version of each package in `needs`, such as tornado==6.5.2."""
    lines, _ = _lock()
    names = {_package_name(line) for line in lines_for(needs)}
    return [lines[name][0].partition(" ")[0] for name in lines if name in names]


def locked(requirement: str) -> list[str]:
    """Return the lines of the lock, with hashes, for a requirement and for all that it requires."""
    lines, dependents = _lock()
    found, size = {_package_name(requirement)}, 0
    while size < len(found):
        size = len(found)
        found |= {name for name in lines if dependents[name] & found}
    return [line for name in sorted(found) for line in lines[name]]


@functools.cache
def _required() -> dict[str, dict[str, str]]:
    """Return the requirements by the target that installs them, and by the name of the package."""
    import tomllib

    project = tomllib.loads(PROJECT.read_text())
    found = {"setup": _by_name(project["project"]["dependencies"])}
    groups = project["project"]["optional-dependencies"] | project["dependency-groups"]
    for name, target in TARGETS.items():
        lines = [line for line in groups[name] if isinstance(line, str)]
        found[target] = found.get(target, {}) | _by_name(lines)
    return found


def _by_name(lines: Sequence[str]) -> dict[str, str]:
    return {_package_name(line): line for line in lines}


@functools.cache
def _lock() -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """Return the lines of each package in the lock, and the packages that require it.

    A package has several lines if different Pythons need different versions.
    """
    lines: defaultdict[str, list[str]] = defaultdict(list)
    dependents: defaultdict[str, set[str]] = defaultdict(set)
    name = ""
    for line in LOCK.read_text().replace("\\\n", "").splitlines():
        if line.startswith("    # via "):
            dependents[name] |= {
                _package_name(word) for word in line.removeprefix("    # via ").split(", ")
            }
        elif not line.startswith("#"):
            name = _package_name(line)
            lines[name].append(" ".join(line.split()))
    return dict(lines), dependents


def _package_names(needs: Sequence[str]) -> list[str]:
    """Return the names of the packages that install modules, each once."""
    return list(dict.fromkeys(PROVIDED_BY.get(need, need).lower() for need in needs))


def _package_name(line: str) -> str:
    """Return the usual import name of a requirement."""
    return re.split(r"[^\w-]", line)[0].replace("-", "_").lower()
