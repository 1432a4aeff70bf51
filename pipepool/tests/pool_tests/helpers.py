"""Helpers of the tests: a pool that is closed, waits with a deadline, free ports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import sysconfig
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any

import psutil
from hypothesis import HealthCheck, settings

import pipepool
from pipepool import PipePool
from pipepool.scheduling.scheduler import Scheduler

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMIT = 20.0  # s for one test; a guess, which none comes near
TESTS = Path(__file__).resolve().parents[1]
SOURCE = Path(pipepool.__file__).resolve().parents[1]
PATHS = [str(TESTS), str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
ENVIRONMENT = {**os.environ, "PYTHONPATH": ":".join(PATHS)}  # for scripts that import both
# The part of a script that creates its pool: PipeExecutor if its argument is pipe.
CREATE = """
def create(workers, preload=(), **settings):
    if sys.stderr:
        faulthandler.dump_traceback_later(25, exit=True)  # instead of a hang
    if sys.argv[1] == "pipe":
        return PipeExecutor(workers, preload=preload, **settings)
    set_forkserver_preload(list(preload))
    return ProcessPoolExecutor(workers, mp_context=get_context("forkserver"), **settings)
"""


def in_pool(test: Callable[[PipePool], Awaitable[None]], workers: int = 2, **settings: Any) -> None:
    """Run a test with a pool, on a loop of its own."""

    async def body() -> None:
        async with asyncio.timeout(LIMIT), PipePool(workers, **settings) as pool:
            await test(pool)

    asyncio.run(body())


async def wait_for(fact: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until a fact is true, on the loop."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it did not become true in time"
        await asyncio.sleep(0.005)


def has_ended(pid: int) -> bool:
    """Whether a process has ended: a zombie that nobody reaps has ended, too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(fact: Callable[[], object], seconds: float = LIMIT) -> bool:
    """Wait until a fact is true, without a loop; return False when the time is up."""
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def read_line(stream: IO[bytes] | None, seconds: float = LIMIT) -> str:
    """Read one line of a process's output; raise TimeoutError when it does not come in time."""
    assert stream is not None
    line, deadline = b"", time.monotonic() + seconds
    while not line.endswith(b"\n"):
        if not select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"no line within {seconds} s, only {line!r}")
        if not (byte := os.read(stream.fileno(), 1)):
            break
        line += byte
    return line.decode()


def descriptors() -> set[tuple[str, str]]:
    """Return the open file descriptors of this process with their targets."""
    found = set[tuple[str, str]]()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add((path.name, str(path.readlink())))
    return found


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def is_alive(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    except OSError:
        return False


def assume_short(scheduler: Scheduler | None, *functions: Callable[..., Any]) -> None:
    """Set the estimates of functions to 5 us, as after many short runs."""
    assert scheduler is not None
    for each in functions:
        scheduler._functions.get(each).estimate = 5000.0  # ns


def examples(count: int) -> settings:
    """Return a decorator that runs a property test with the same examples each time."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
