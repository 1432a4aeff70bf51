"""Calls of a coroutine on one event loop: the rate is that of the loop, also if it never awaits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from offload.serving.metrics import call_statistics

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


def rate(task: str) -> float:
    """Return the calls per second of USERS concurrent users."""

    async def run() -> list[call_statistics.CallStatistics]:
        return await asyncio.gather(*(call_statistics.acalls(task, 0.1) for _ in range(USERS)))

    return sum(each.done / each.wall_s for each in asyncio.run(run()))


def test_a_coroutine_that_blocks_has_the_rate_of_one_call_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(TASKS)
    assert rate(f"{tmp_path}/waits.py:blocks") < 2 / WAIT_S
    assert rate(f"{tmp_path}/waits.py:awaits") > 2 / WAIT_S
