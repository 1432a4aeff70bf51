"""Virtual environments that differ from this one in one package; they are kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from offload.bench.target import interpreters
from offload.errors import MachineError, StorageError, UsageError
from offload.registry import places, requirements

TIMEOUT = 900.0  # s for an installation
COMPLETE = "complete"  # a file in an environment that has all of its packages
OURS = {"offload", "pipepool", "pip", "setuptools", "wheel"}  # never pinned


def create(requirement: str, needs: Sequence[str], python: str, has_own_work: bool) -> str:
    """Return the interpreter of an environment that has `requirement`, such as tornado==6.4.

    It is a venv of the interpreter `python` without the system's packages. It has the packages that
    our servers need and those in `needs`, which are import names. With `has_own_work` it has all
    packages of this environment, because the imports of a user's function are unknown. Packages of
    this environment have the same version there. Raise UsageError if the required version does not
    exist or conflicts with other packages, and MachineError if no package index is reachable.
    """
    if _normal(requirement) in OURS:
        what = f"{requirement} is not a package that a server imports from its environment"
        raise UsageError(what, "name another checkout of this toolkit: against=path/to/checkout")
    wanted = _wanted(requirement, needs, has_own_work)
    folder = _folder(requirement, wanted, python)
    with _lock(folder):
        if not ((folder / COMPLETE).exists() and (folder / "bin" / "python").exists()):
            shutil.rmtree(folder, ignore_errors=True)
            print(f"installing {requirement} in {folder}", file=sys.stderr, flush=True)
            try:
                _create(folder, requirement, wanted, python)
                (folder / COMPLETE).touch()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    return str(folder / "bin" / "python")


def _wanted(requirement: str, needs: Sequence[str], has_own_work: bool) -> list[str]:
    """Return the requirements of the other packages, with the versions of this environment."""
    own, here = _normal(requirement), _installed()
    lines = requirements.lines_for((*interpreters.ALWAYS, *needs))
    names = {_normal(line): line for line in lines}
    if has_own_work:
        names |= {name: name for name in here}
    names.pop(own, None)
    return sorted(f"{name}=={here[name]}" if name in here else names[name] for name in names)


def _installed() -> dict[str, str]:
    """Return the versions of this environment's packages that a package index has, by name."""
    found: dict[str, str] = {}
    for each in metadata.distributions():
        name = _normal(each.metadata["Name"] or "")
        if name and name not in OURS and not _is_from_url(each):
            found.setdefault(name, each.version)
    return found


def _is_from_url(distribution: metadata.Distribution) -> bool:
    """Whether a package was installed from a folder, a repository or a file, not from an index."""
    return bool(distribution.read_text("direct_url.json"))


def _normal(requirement: str) -> str:
    """Return the normalized name of a requirement, by PEP 503."""
    name = re.split(r"[^\w.-]", requirement.strip())[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def _folder(requirement: str, wanted: Sequence[str], python: str) -> Path:
    lines = "\n".join([requirement, *wanted, str(Path(python).resolve())])
    digest = hashlib.sha256(lines.encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]+", "-", requirement)
    return places.cache() / "environments" / f"{name}-{digest}"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Let one process at a time create an environment."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        what = f"{folder.parent}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _create(folder: Path, requirement: str, wanted: Sequence[str], python: str) -> None:
    """Create a venv and install the packages; raise UsageError or MachineError."""
    if importlib.util.find_spec("pip") is None:
        raise interpreters.no_pip()
    venv = _run([python, "-m", "venv", "--without-pip", str(folder)])
    if venv is not None:
        raise MachineError(f"{python} cannot create a venv ({venv})", "install its module venv")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    pip += ["--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1"]
    constraints = folder / "constraints.txt"
    own = _normal(requirement)
    pinned = [f"{name}=={known}" for name, known in _installed().items() if name != own]
    constraints.write_text("\n".join(pinned))
    # If the required version needs other versions of its dependencies, these may differ, too.
    if _run([*pip, "--constraint", str(constraints), requirement, *wanted]) is None:
        return
    problem = _run([*pip, requirement, *wanted])
    if problem is None:
        return
    name = requirement.partition("==")[0]
    if _run([*pip, "--dry-run", "--no-deps", "--ignore-installed", name]) is not None:
        fix = "connect to one, or name an environment that exists: against=path/to/venv"
        raise MachineError(
            f"{requirement} cannot be installed: no package index with {name} is reachable", fix
        )
    raise UsageError(f"{requirement} cannot be installed ({problem})", "name another version")


def _run(argv: list[str]) -> str | None:
    """Run a program; return None, or the last line that it printed if it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"it took longer than {TIMEOUT:.0f} s"
    except OSError as error:
        return str(error.strerror)
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
