"""Install the packages that servers need in another interpreter."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from offload.bench.target import interpreters
from offload.errors import MachineError
from offload.registry import catalog, places, requirements
from offload.registry.application import is_application
from offload.suites import Case

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


def environment(
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
    folder = _folder(python, always)
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
        return environment(python, needs_of(case), case.task)
    ours = places.import_path(python, case.origin.toolkit, case.origin.search)
    if case.origin.python is not None:
        return ours
    return environment(python, needs_of(case), case.task, ours)


def needs_of(case: Case) -> tuple[str, ...]:
    """Return the packages that a case's server and its task import, by their import names."""
    server, task = catalog.find_server(case.server), catalog.find_task(case.task, case.path)
    return (*server.needs, *task.packages)


def _has(python: str, names: Sequence[str]) -> bool:
    return not names or _succeeds([python, "-P", "-c", f"import {', '.join(names)}"], 30)


def _folder(python: str, always: Sequence[str]) -> Path:
    digest = hashlib.sha256(
        "\n".join([python, *requirements.lines_for(always)]).encode()
    ).hexdigest()[:8]
    return interpreters.FOLDER / f"packages-{Path(python).name}-{digest}"


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
    required = interpreters.FOLDER / "requirements" / f"{name}.txt"
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
    folder = interpreters.FOLDER / "pip"
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
