"""The packages that servers need in another interpreter, installed beside it on demand."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from offload.bench.target import interpreters
from offload.errors import MachineError
from offload.registry import places, requirements

# What servers and tasks import, beside what single servers name in their NEEDS.
ALWAYS = ("tornado", "requests", "lxml", "feedparser", "tenacity", "cryptography")
# Whose sources take minutes to build: only as wheels, or not at all.
COMPILED = "lxml,cryptography,granian,uvloop,httptools"
PATIENCE = 600.0  # s for one package
_failed: dict[str, set[str]] = {}  # by interpreter; another command tries them again
PIP = (24, 1)  # older ones give a free-threaded build the wheels of the one with the GIL


def environment(python: str, needs: Sequence[str] = ()) -> dict[str, str]:
    """Give what an interpreter must find in its environment so that servers start in it.

    Only our own packages when it has Tornado itself, and what else a server `needs` by name.
    Otherwise the packages are installed into a folder of its own under .pythons; those that cannot
    be installed are left out, and who needs one says so; the next command tries them again. Raise
    MachineError when nothing can be installed.
    """
    if python == sys.executable:
        return places.import_path()
    ours = places.import_path(python)
    if _has(python, ("tornado", *needs)):
        return ours
    folder = _folder(python)
    installed = folder / "installed"
    known = installed.read_text().splitlines() if installed.exists() else []
    failed = _failed.setdefault(python, set())
    lines = requirements.lines_for(ALWAYS) + requirements.lines_for(needs)
    if missing := [line for line in lines if line not in known and line not in failed]:
        had = _install(python, folder, missing)
        installed.write_text("\n".join([*known, *had]))
        failed.update(set(missing) - set(had))
    return {"PYTHONPATH": f"{ours['PYTHONPATH']}:{folder}"}


def _has(python: str, names: Sequence[str]) -> bool:
    return _succeeds([python, "-c", f"import {', '.join(names)}"], 30)


def _folder(python: str) -> Path:
    mark = hashlib.sha256(
        "\n".join([python, *requirements.lines_for(ALWAYS)]).encode()
    ).hexdigest()[:8]
    return interpreters.OWN / f"packages-{Path(python).name}-{mark}"


def _install(python: str, folder: Path, packages: Sequence[str]) -> list[str]:
    """Install packages one by one; return those that could be installed."""
    print(f"installing {len(packages)} packages for {python}", file=sys.stderr)
    had = [package for package in packages if _succeeds(_pip(python, folder, package), PATIENCE)]
    tornado = requirements.lines_for(ALWAYS[:1])[0]
    if tornado in packages and tornado not in had:
        words = " ".join(_pip(python, folder, tornado))
        raise MachineError(f"{tornado} cannot be installed for {python}: {words}")
    if left := [package for package in packages if package not in had]:
        print(f"cannot be installed for {python}: {', '.join(left)}", file=sys.stderr)
    return had


def _pip(python: str, folder: Path, package: str) -> list[str]:
    """Run a pip of ours with the other interpreter, which may have none of its own."""
    pip = [*_our_pip(), "--python", python, "install", "--quiet"]
    how = ["--disable-pip-version-check", "--only-binary", COMPILED, "--target", str(folder)]
    return [*pip, *how, "--upgrade", package]


def _our_pip() -> list[str]:
    """Give the words for our pip, or for a newer one under .pythons where ours is too old."""
    ours = [sys.executable, "-m", "pip"]
    if tuple(map(int, version("pip").split(".")[:2])) >= PIP:
        return ours
    folder = interpreters.OWN / "pip"
    if not folder.exists():
        newer = f"pip>={'.'.join(map(str, PIP))}"
        words = [*ours, "install", "--quiet", "--target", str(folder), newer]
        if not _succeeds(words, PATIENCE):
            raise MachineError(f"no newer pip to be had: {' '.join(words)}")
    return [sys.executable, str(folder / "pip")]


def _succeeds(words: list[str], seconds: float) -> bool:
    try:
        return subprocess.run(words, capture_output=True, timeout=seconds).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
