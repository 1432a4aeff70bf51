"""Waiting: how many requests start at once, by the duration of a task."""

from __future__ import annotations

import asyncio

import pytest

from offload.serving.protection.admission import Waiting

pytestmark = pytest.mark.unit

WORKERS = 4


def started(waiting: Waiting, requests: int = 100) -> int:
    """Return how many of these requests start without waiting."""

    async def enter_all() -> int:
        return sum(waiting.enter() is None for _ in range(requests))

    return asyncio.run(enter_all())


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, 6), (0.05, 8), (0.01, 24)])
def test_some_tasks_start_in_advance_and_more_short_ones(seconds: float, expected: int) -> None:
    waiting = Waiting(WORKERS, 10.0)
    waiting.service_s = seconds
    assert started(waiting) == expected


@pytest.mark.parametrize(("workers", "expected"), [(1, 1), (2, 3), (5, 7)])
def test_fewer_long_tasks_than_workers_start_in_advance(workers: int, expected: int) -> None:
    waiting = Waiting(workers, 10.0)
    resized = Waiting(1, 10.0)
    resized.resize(workers)
    for each in (waiting, resized):
        each.service_s = 2.0
        assert started(each) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(None, 4), (0.3, 4), (0.25, 6)])
def test_a_task_whose_wait_may_exceed_its_timeout_does_not_start_in_advance(
    seconds: float | None, expected: int
) -> None:
    waiting = Waiting(WORKERS, 10.0, timeout=1.0)
    waiting.service_s = seconds
    assert started(waiting) == expected
