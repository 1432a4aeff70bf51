"""Calls of a coroutine on one event loop: the rate is that of the loop, also if it never awaits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from offload.serving.metrics import call_statistics
from offload.serving.metrics.call_statistics import CallStatistics

pytestmark = pytest.mark.unit

WAIT_S, USERS = 0.01, 10
TASKS = f"""
import asyncio, time
async def blocks():
    time.sleep({WAIT_S})
    return b"done"
async def awaits():
    await asyncio.sleep({WAIT_S})
    return b"done"
"""


def calls(task: str, seconds: float, least: int = 0) -> list[CallStatistics]:
    """Return the calls of USERS concurrent users."""

    async def run() -> list[CallStatistics]:
        started = monotonic()
        users = (call_statistics.acalls(task, seconds, started, least) for _ in range(USERS))
        return await asyncio.gather(*users)

    return asyncio.run(run())


@pytest.mark.timing
def test_the_checksums_of_results_are_not_part_of_the_calls_times(tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text("RESULT = bytes(16 << 20)\ndef same(): return RESULT\n")
    found = call_statistics.calls(f"{tmp_path}/large.py:same", 0.0, least=20)
    assert (found.done, len(found.checksums)) == (20, 1)
    assert 0 < found.cpu_s < found.checking_cpu_s
    assert 0 < found.wall_s < found.checking_s


def rate(found: list[CallStatistics]) -> float:
    return sum(each.done / each.wall_s for each in found)


@pytest.mark.timing
@pytest.mark.parametrize("seconds", [0.1, 0.025])  # in which each user has a turn, or only some
def test_a_coroutine_that_blocks_has_the_rate_of_one_call_at_a_time(
    tmp_path: Path, seconds: float
) -> None:
    (tmp_path / "waits.py").write_text(TASKS)
    assert rate(calls(f"{tmp_path}/waits.py:blocks", seconds)) < 1.2 / WAIT_S
    assert rate(calls(f"{tmp_path}/waits.py:awaits", seconds)) > 2 / WAIT_S


def test_users_without_a_turn_in_time_do_not_prolong_the_measurement(tmp_path: Path) -> None:
    """Otherwise 1,000 users of a coroutine that blocks for 0.1 s would call for 100 s."""
    (tmp_path / "waits.py").write_text(TASKS)
    found = calls(f"{tmp_path}/waits.py:blocks", 0.025)
    assert 1 <= sum(each.done for each in found) <= 3
    assert max(each.wall_s for each in found) < USERS * WAIT_S
    assert [each.done for each in calls(f"{tmp_path}/waits.py:blocks", 0.0, least=1)] == [1] * USERS
