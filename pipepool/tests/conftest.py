"""Fixtures for the tests of pipepool: no test may leave a file descriptor open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker

import pytest

from pool_tests.helpers import descriptors

with contextlib.suppress(ModuleNotFoundError):
    import uvloop

    uvloop.run(asyncio.sleep(0))  # its first loop opens two descriptors for the process
resource_tracker.ensure_running()  # all pools share its descriptor


ENDING = 5.0  # s for a thread to end after it has set its last result


def pytest_collection_finish() -> None:
    """Exempt what pytest imported and collected from all later garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _the_logger_is_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enable pipepool's logger: a library that another test configures may disable all loggers."""
    logging.disable(logging.NOTSET)
    for name, value in {"disabled": False, "propagate": True, "level": logging.NOTSET}.items():
        monkeypatch.setattr(logging.getLogger("pipepool"), name, value)
    logging.getLogger("pipepool").manager._clear_cache()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    before = descriptors()
    gc.freeze()  # the collection below then examines this test's objects only: 1 ms, not 100
    yield
    deadline = time.monotonic() + ENDING
    while True:
        gc.collect()  # a pool and the traceback that refers to it form a cycle
        left = descriptors() - before
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    assert not left
