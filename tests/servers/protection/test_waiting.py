"""Waiting: how many requests start at once, by the duration of a task and the delay of the loop."""

from __future__ import annotations

import asyncio

import pytest

from offload.serving.protection.waiting import Waiting

pytestmark = pytest.mark.unit

WORKERS = 4


def started(waiting: Waiting, requests: int = 100) -> int:
    """Return how many of these requests start without waiting."""

    async def enter_all() -> int:
        return sum(waiting.enter() is None for _ in range(requests))

    return asyncio.run(enter_all())


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, 4), (0.05, 8), (0.01, 24)])
def test_workers_receive_short_tasks_in_advance(seconds: float, expected: int) -> None:
    waiting = Waiting(WORKERS, 10.0)
    waiting.set_service(seconds)
    assert started(waiting) == expected


def test_workers_receive_a_long_task_in_advance_while_the_loop_is_late() -> None:
    waiting = Waiting(WORKERS, 10.0)
    for _ in range(5):
        waiting.set_service(1.0, late_s=0.1)
    assert started(waiting) == 2 * WORKERS


def test_one_delay_changes_nothing_and_earlier_delays_are_forgotten() -> None:
    waiting = Waiting(WORKERS, 10.0)
    waiting.set_service(1.0, late_s=0.05)
    assert started(waiting) == WORKERS
    waiting = Waiting(WORKERS, 10.0)
    for late_s in [0.1] * 5 + [0.0] * 10:
        waiting.set_service(1.0, late_s)
    assert started(waiting) == WORKERS
