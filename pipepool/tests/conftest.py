"""Fixtures of the pool's tests: no test may leave a descriptor open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

with contextlib.suppress(ModuleNotFoundError):
    import uvloop

    uvloop.run(asyncio.sleep(0))  # its first loop opens two descriptors for the process
resource_tracker.ensure_running()  # its one descriptor is shared by all pools


ENDING = 5.0  # s until a thread that has set its last result has ended


def pytest_collection_finish() -> None:
    """Exempt what pytest imported and collected from all later garbage collections."""
    gc.collect()
    gc.freeze()


def descriptors() -> set[tuple[str, str]]:
    """Return the open descriptors of this process, each with its target."""
    found = set[tuple[str, str]]()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one of the listing itself
            found.add((path.name, str(path.readlink())))
    return found


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    before = descriptors()
    gc.freeze()  # the collection below then examines this test's objects only: 1 ms, not 100
    yield
    deadline = time.monotonic() + ENDING
    while True:
        gc.collect()  # a pool that a traceback refers to is in a cycle with it
        left = descriptors() - before
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    assert not left
