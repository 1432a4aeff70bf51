"""Fetch the sources of the peers' tests into .data/peers, once for each version.

A failure raises Unavailable with a message of one line. It is stored for REMEMBER seconds, so that
all processes of one test run collect the same tests.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

FOLDER = ROOT / ".data" / "peers"
REMEMBER = 600.0  # s for which a failure to fetch is not tried again
DOWNLOAD_TIMEOUT = 240.0  # s for one command that downloads
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

# Releases of Debian that have the tests of a Python.
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid"}


@dataclass(frozen=True)
class Sdist:
    """A source distribution at an exact version: the tables name tests of this version."""

    name: str
    version: str
    sha256: str
    folder: str = "."  # that its tests import from
    needs: tuple[str, ...] = ()  # packages at exact versions that the project does not install


class Unavailable(Exception):
    """Why the tests of a peer cannot be fetched, in one line."""


def fetch_cpython(python: str) -> Path:
    """Return the folder with the tests of an interpreter; download them first when missing."""
    own = _own_tests(python)
    return own or _once(f"cpython-{version(python)}", lambda to: _debian_tests(python, to))


def fetch_sdist(sdist: Sdist) -> Path:
    """Return the folder with an unpacked sdist; download it first when missing."""
    return _once(f"{sdist.name}-{sdist.version}", lambda folder: _download(sdist, folder))


def _once(name: str, get: Callable[[Path], None]) -> Path:
    folder, failure = FOLDER / name, FOLDER / f"{name}.failed"
    with locked(name):
        if folder.is_dir():
            return folder
        if failure.is_file() and time.time() - failure.stat().st_mtime < REMEMBER:
            raise Unavailable(failure.read_text())
        partial = FOLDER / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            get(partial)
        except (Unavailable, OSError, subprocess.SubprocessError, tarfile.TarError) as error:
            why = (str(error).strip() or repr(error)).splitlines()[0]
            failure.write_text(f"the tests of {name} cannot be fetched: {why}")
            raise Unavailable(failure.read_text()) from error
        else:
            partial.rename(folder)
            return folder
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(sdist: Sdist, folder: Path) -> None:
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{sdist.name}=={sdist.version} --hash=sha256:{sdist.sha256}\n")
    download = [*PIP, "download", "-q", "--no-deps", "--no-binary", sdist.name]
    _run([*download, "--require-hashes", "-d", str(folder), "-r", str(wanted)])
    wanted.unlink()
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
    [inner] = folder.iterdir()
    for each in inner.iterdir():
        each.rename(folder / each.name)
    inner.rmdir()


def packages(sdist: Sdist) -> list[Path]:
    """Return the folder of the packages that a peer needs, if any; install it first if missing."""
    if not sdist.needs:
        return []
    state = hashlib.sha256(repr(sdist.needs).encode()).hexdigest()[:8]
    return [_install(f"{sdist.name}-needs-{state}", sys.executable, *sdist.needs)]


def runner(python: str) -> Path:
    """Return a folder with pytest for another interpreter; install it first when it is missing."""
    return _install(f"pytest-{version(python)}", python, "pytest>=8")


def _install(name: str, python: str, *requirements: str) -> Path:
    command = [*PIP, "--python", python, "install", "-q", "--target"]
    return _once(name, lambda folder: _run([*command, str(folder), *requirements]))


def version(python: str) -> str:
    """Return the version of an interpreter, such as 3.14.2."""
    return _ask(python, "import sys; print('%d.%d.%d' % sys.version_info[:3])")


def _ask(python: str, code: str) -> str:
    """Return what an interpreter prints; nothing if the code fails there."""
    words = [python, "-c", code]
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{python} does not run: {error}") from error
    return ended.stdout.strip()


def _own_tests(python: str) -> Path | None:
    """Return the library folder of an interpreter that comes with these tests."""
    code = "import importlib.util as u; print(u.find_spec('test.test_concurrent_futures').origin)"
    if not (found := _ask(python, code)):
        return None
    origin = Path(found)
    return origin.parents[2] if origin.name == "__init__.py" else origin.parents[1]


def _debian_tests(python: str, folder: Path) -> None:
    minor = version(python).rpartition(".")[0]
    suite = SUITES.get(minor)
    if suite is None:
        raise Unavailable(f"no release of Debian is known that has Python {minor}")
    if not _ask(python, "import test.support; print(test.support)"):
        raise Unavailable("this Python has no test.support")
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not installed")
    package = f"libpython{minor}-testsuite"
    script = (
        '. "$1/scripts/install/private_apt"; private_apt "$2/apt" "deb $DEBIAN $3 main"; '
        'apt update && cd "$2/apt" && apt download "$4"'
    )
    _run(["sh", "-c", script, "sh", str(ROOT), str(folder), suite, package])
    [deb] = (folder / "apt").glob("*.deb")
    _run(["dpkg-deb", "-x", str(deb), str(folder / "all")])
    [tests] = (folder / "all").glob("usr/lib/python3*/test")
    (folder / "test").mkdir()
    for name in ("test_concurrent_futures*", "test_importlib"):  # from which one of them imports
        for each in tests.glob(name):
            each.rename(folder / "test" / each.name)
    shutil.rmtree(folder / "apt")
    shutil.rmtree(folder / "all")


def _run(command: list[str]) -> None:
    env = {**os.environ, "PIP_NO_INPUT": "1"}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT, env=env
    )
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        first = next((line for line in lines if line.startswith("ERROR")), lines[-1])  # of pip
        raise Unavailable(f"{Path(command[0]).name}: {first}")
