"""Folders: the checkout, the cache, the interpreters, and the import path of other Pythons."""

from __future__ import annotations

import os
import sys
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
