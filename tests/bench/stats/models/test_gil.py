"""The GIL figures follow from clocks and rates by their definitions."""

from __future__ import annotations

import pytest

from offload.engine.load_phase import blocked_time
from offload.studies.gil import figures


def test_what_is_neither_cpu_nor_queue_alone_is_blocked() -> None:
    assert blocked_time(task_s=1.0, cpu_s=0.25, queued_s=0.25) == 0.5
    assert blocked_time(task_s=1.0, cpu_s=1.01, queued_s=0.0) == 0.0


def test_the_wait_share_is_what_is_left_of_the_wall_time() -> None:
    assert figures.wait_share(w_n=4.0, c_n=1.0, q_n=0.5, b=0.5) == 0.5
    assert figures.wait_share(w_n=1.0, c_n=1.0, q_n=0.0, b=0.1) == 0.0


def test_inflation_is_cpu_among_others_by_cpu_alone() -> None:
    assert figures.inflation(c_n=3.0, c_1=2.0) == 1.5


def test_the_cost_is_what_threads_lack_of_processes() -> None:
    assert figures.cost(rate_threads=25, rate_processes=100) == 0.75
    assert figures.cost(rate_threads=110, rate_processes=100) == pytest.approx(-0.1)


def test_what_cannot_be_is_refused() -> None:
    for impossible in (
        lambda: figures.wait_share(0, 0, 0, 0),
        lambda: figures.inflation(float("nan"), 1),
        lambda: figures.inflation(1, 0),
        lambda: figures.cost(1, 0),
    ):
        with pytest.raises(ValueError):
            impossible()
