"""Samples can be read while threads add rows, with and without a GIL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from offload.bench.target import interpreters
from offload.registry import places

READS_WHILE_THREADS_ADD = """
import threading
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
try:
    for _ in range(300): rows = samples.rows()
finally:
    is_stopped.set()
print(len(rows) > 100 and all(first == second for first, second in rows))
"""


def pythons() -> list[str]:
    return [
        sys.executable,
        *(each.path for each in interpreters.find_all() if not each.gil_enabled),
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
