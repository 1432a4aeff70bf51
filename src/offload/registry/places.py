"""Folders: where the toolkit is, where it keeps what it downloads, and what Pythons import from."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def _checkout() -> Path | None:
    root = PACKAGE.parents[1]
    return root if PACKAGE.parent.name == "src" and (root / "fabfile.py").is_file() else None


CHECKOUT = _checkout()  # None where the toolkit is installed from a wheel


def cache() -> Path:
    """Return the folder of what is downloaded or generated: .data in a checkout, else a cache."""
    if CHECKOUT is not None:
        return CHECKOUT / ".data"
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "offload"


def interpreters() -> Path:
    """Return the folder of interpreters that scripts built, and of packages for any interpreter."""
    return cache() / "pythons" if CHECKOUT is None else CHECKOUT / ".pythons"


def shown(path: Path) -> Path:
    """Return a path as people know it: relative to the checkout if it is in there."""
    real = path.parent.resolve() / path.name
    if CHECKOUT is None or not real.is_relative_to(CHECKOUT):
        return path
    return real.relative_to(CHECKOUT)


def import_path(python: str = sys.executable) -> dict[str, str]:
    """Return the environment in which an interpreter finds `offload` and `pipepool`.

    Before the user's own PYTHONPATH, whose empty entries (the current folder) are left out.
    """
    if CHECKOUT is not None:
        ours = [CHECKOUT / "src", CHECKOUT / "pipepool" / "src"]
    elif python != sys.executable:
        ours = [_links()]
    else:
        ours = []
    theirs = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = dict.fromkeys([*map(str, ours), *(entry for entry in theirs if entry)])
    return {"PYTHONPATH": os.pathsep.join(found)} if found else {}


def _links() -> Path:
    """Return a folder that holds our two packages alone.

    Another interpreter must not see the rest of this one's site-packages.
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
