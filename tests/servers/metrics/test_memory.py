"""The pauses of the garbage collector: which of them a call of gc.collect() caused."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offload.serving.metrics import memory

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    memory.watch_collections()
    yield
    gc.callbacks.remove(memory._note)


def collected(start: float) -> dict[str, Any]:
    # A row counts for the window in which it starts, which is before a collection's end.
    return memory.collections_between(start, time.monotonic() + 1)


def purge() -> None:
    gc.collect()


def test_a_call_of_gc_collect_is_told_from_a_collection_that_python_starts() -> None:
    time.sleep(memory.INTERVAL)  # so that a new row starts
    start = time.monotonic()
    kept = [[number] for number in range(100_000)]
    of_python = collected(start)
    assert of_python["called"] == 0.0
    purge()  # the number of younger collections may have exceeded its threshold for long
    time.sleep(memory.INTERVAL)
    start = time.monotonic()
    purge()
    called = collected(start)
    assert called["called"] == called["share"] > 0.0
    line = purge.__code__.co_firstlineno + 1
    assert called["caller"].startswith("purge (")
    assert called["caller"].endswith(f"{Path(__file__).name}:{line})")
    assert len(kept) == 100_000
