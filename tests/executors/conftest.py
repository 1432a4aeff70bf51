"""What these tests share: a pool that is closed, and an event loop around each test."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Awaitable, Callable
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest
import uvloop

from executors._dispatch import Dispatch
from executors.pipes import PipePool

LIMIT = 20.0  # s for one test, which none comes near


def in_pool(test: Callable[[PipePool], Awaitable[None]], workers: int = 2, **settings: Any) -> None:
    """Run a test with a pool, on a loop of its own."""

    async def body() -> None:
        async with asyncio.timeout(LIMIT), PipePool(workers, **settings) as pool:
            await test(pool)

    asyncio.run(body())


async def wait_for(fact: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it did not become true in time"
        await asyncio.sleep(0.005)


def lives(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    except OSError:
        return False


def take_for_short(dispatch: Dispatch | None, *functions: Callable[..., Any]) -> None:
    """Have a pool take functions for short, as after many runs, however busy the machine is."""
    assert dispatch is not None
    for each in functions:
        dispatch._functions.of(each).estimate = 5000.0  # ns


resource_tracker.ensure_running()  # of multiprocessing, with one descriptor for all pools
uvloop.run(asyncio.sleep(0))  # it keeps two descriptors of its own from its first loop on


def descriptors() -> set[tuple[str, str]]:
    """List what is open in this process, each with what it is."""
    found = set[tuple[str, str]]()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of the listing itself
            found.add((path.name, str(path.readlink())))
    return found


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Any:
    before = descriptors()
    yield
    gc.collect()  # a pool that was seen in a traceback is in a cycle with it
    assert descriptors() <= before
