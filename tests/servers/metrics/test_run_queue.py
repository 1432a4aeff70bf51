"""The run queue clock includes short-lived threads: a thread per request creates thousands."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from offload.serving.metrics import task_clock


@pytest.fixture
def wait_times(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(task_clock, "ENABLED", True)
    if math.isnan(task_clock.wait_time()):
        pytest.skip("this kernel does not count how long threads wait for a CPU")
    found: list[float] = []
    for _ in range(1000):
        thread = threading.Thread(target=lambda: found.append(task_clock.wait_time()))
        thread.start()
        thread.join(20)
    return found


def test_the_time_of_a_new_thread_is_known(wait_times: list[float]) -> None:
    assert not any(map(math.isnan, wait_times))


def test_a_thread_that_ends_closes_its_file(wait_times: list[float]) -> None:
    targets = [file.resolve() for file in Path("/proc/self/fd").iterdir()]
    assert len(wait_times) == 1000
    assert sum(target.name == "schedstat" for target in targets) <= threading.active_count()
