"""Samples keep the newest rows in little memory, and are read while threads add rows."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from offload.engine.server import find_interpreters
from offload.registry import places
from offload.serving.metrics import samples
from offload.serving.metrics.samples import Samples

READS_WHILE_THREADS_ADD = """
import threading, time
from offload.serving.metrics.samples import Samples
samples, is_stopped = Samples(2), threading.Event()
def add():
    number = 0
    while not is_stopped.wait(0.0001):
        for _ in range(20):
            number += 1
            samples.add(number, number)
threads = [threading.Thread(target=add) for _ in range(8)]
for thread in threads: thread.start()
rows, ends = [], time.monotonic() + 30
try:
    while len(rows) <= 1000 and time.monotonic() < ends:  # they run only once this one yields
        for _ in range(300): rows = samples.rows()
finally:
    is_stopped.set()
print(len(rows) > 1000 and all(first == second for first, second in rows))
"""


def pythons() -> list[str]:
    return [
        sys.executable,
        *(each.path for each in find_interpreters() if not each.gil_enabled),
    ]


@pytest.mark.parametrize("python", pythons())
def test_rows_are_read_while_threads_add_more(python: str) -> None:
    assert places.CHECKOUT is not None
    ended = subprocess.run(
        [python, "-c", READS_WHILE_THREADS_ADD],
        env={"PYTHONPATH": str(Path(places.CHECKOUT, "src"))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("True\n", "")


def test_a_row_takes_the_memory_of_its_numbers() -> None:
    """A server that collects samples for ten minutes must not look like one that leaks."""
    tracemalloc.start()
    try:
        kept, before = Samples(2), tracemalloc.get_traced_memory()[0]
        for number in range(samples.KEPT):
            kept.add(number, number)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(kept.rows()) == samples.KEPT
    assert grown < 1.2 * samples.KEPT * 2 * 8


def test_the_oldest_rows_are_removed() -> None:
    kept, count = Samples(3), 2 * samples.KEPT + 7
    for number in range(count):
        kept.add(number, -number, 0.5)
    rows = kept.rows()
    assert samples.KEPT <= len(rows) <= samples.KEPT + samples.CHUNK
    assert rows == [(n, -n, 0.5) for n in range(count - len(rows), count)]
    assert kept.between(rows[0][0] - 1, count) is None
    assert kept.between(rows[5][0], rows[7][0]) == rows[5:8]


def test_without_rows_there_are_none() -> None:
    assert (Samples(2).rows(), Samples(2).between(0, 1)) == ([], [])


def test_a_window_of_many_rows_needs_memory_for_its_own_rows_only() -> None:
    many = Samples(13)
    for number in range(20_000):
        many.add(*(float(number + column) for column in range(13)))
    tracemalloc.start()
    try:
        assert many.between(100.0, 109.0) == many.rows()[100:110]
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        many.between(100.0, 109.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (
        peak - before < 3 * 20_000 * 13 * 8
    )  # the packed rows, twice: as tuples they are 4.6 times
