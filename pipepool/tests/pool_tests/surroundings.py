"""Surroundings of a pool that its application sets: streams, limits, and modules that shadow."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from pipepool import BrokenWorker, PipePool
from pool_tests.helpers import ENVIRONMENT, wait_until

MIB = 1 << 20
SMALL = 1 << 16  # bytes of shared memory, where it is limited
SHADOWS = (
    "enum",
    "typing",
    "selectors",
    "contextvars",
    "socket",
    "struct",
    "copyreg",
    "dataclasses",
)


def write_shadows(folder: Path) -> None:
    """Write modules that are named like standard ones, as backports are."""
    for name in SHADOWS:
        (folder / f"{name}.py").write_text("raise ImportError('a backport')")


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def replaced_streams(output: Path) -> Iterator[None]:
    """Let stdout and stderr be a file, so that Python's stdout has a buffer."""
    with output.open("ab") as file, _saved_streams():
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        yield


@contextlib.contextmanager
def closed_streams(_: Path) -> Iterator[None]:
    """Close stdin, stdout and stderr, as a daemon does; a pool that has ended must hold none."""
    with _saved_streams():
        for number in range(3):
            os.close(number)
        yield
        assert not any(map(is_open, range(3))), "the pool has left a descriptor open"


@contextlib.contextmanager
def _saved_streams() -> Iterator[None]:
    unbuffered = os.environ.pop("PYTHONUNBUFFERED", None)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    saved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in range(3)]
    try:
        yield
    finally:
        for number, copy in enumerate(saved):
            os.dup2(copy, number)
            os.close(copy)
        if unbuffered is not None:
            os.environ["PYTHONUNBUFFERED"] = unbuffered


@contextlib.contextmanager
def _limited(which: int, value: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


def limited_files(_: Path) -> AbstractContextManager[None]:
    """Leave this process 24 descriptors: for its loop, and for up to three processes a worker."""
    used = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    free = [number for number in range(max(used) + 26) if number not in used]
    return _limited(resource.RLIMIT_NOFILE, free[24])


def limited_file_size(_: Path) -> AbstractContextManager[None]:
    """Limit files, and with them shared memory, to 1 MiB."""
    return _limited(resource.RLIMIT_FSIZE, MIB)


def limited_memory(_: Path) -> AbstractContextManager[None]:
    """Leave this process 64 MiB of address space: less than the default of one worker."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return _limited(resource.RLIMIT_AS, in_use + 64 * MIB)


@contextlib.contextmanager
def shadowed_modules(folder: Path) -> Iterator[None]:
    """Go to a folder with modules named like standard ones; it is also the last of sys.path."""
    write_shadows(folder)
    sys.path.append(str(folder))
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        sys.path.remove(str(folder))


SURROUNDINGS: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "usual": lambda _: contextlib.nullcontext(),
    "closed streams": closed_streams,
    "few files": limited_files,
    "small files": limited_file_size,
    "little memory": limited_memory,
    "shadowed modules": shadowed_modules,
}
TOO_SMALL = ("small files", "little memory")  # for the default shared memory


async def expect_named_limit() -> None:
    """Start a pool whose default shared memory is larger than a limit allows."""
    try:
        await PipePool(1).start()
    except BrokenWorker as error:
        assert "shared_memory=" in str(error)
    else:
        raise AssertionError("the limit has no effect")


@contextlib.contextmanager
def served_manager() -> Iterator[None]:
    """Serve a manager, whose address is in MANAGER meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MANAGER"] = address = f"{folder}/socket"
        command = [sys.executable, "-m", "pool_tests.side_effects", address]
        process = subprocess.Popen(command, env=ENVIRONMENT)
        try:
            assert wait_until(lambda: Path(address).exists()), "the manager did not start"
            yield
        finally:
            del os.environ["MANAGER"]
            process.kill()
            process.wait()
