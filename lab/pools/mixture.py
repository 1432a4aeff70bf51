"""The mixture: short tasks among long ones, at a fixed average rate (an open loop)."""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from typing import Any

SHORT, LONG = 0.001, 0.05  # s
SHARE = 0.1  # share of long tasks
BUSY = 0.6  # target utilization of the workers


def short() -> None:
    """Take 1 ms."""
    time.sleep(SHORT)


def long() -> None:
    """Take 50 ms."""
    time.sleep(LONG)


async def measure_mixture(pool: Any, workers: int, seconds: float, seed: int) -> array[float]:
    """Return the latency of each short task in s from its due time; `seed` fixes the tasks."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    rate = BUSY * workers / (SHORT * (1 - SHARE) + LONG * SHARE)
    loop = asyncio.get_running_loop()
    times = array("d")

    async def run(is_long: bool, due: float) -> None:
        await pool.run(long if is_long else short)
        if not is_long:
            times.append(loop.time() - due)

    async with asyncio.TaskGroup() as group:
        due = loop.time()
        end = due + seconds
        while (due := due + rng.expovariate(rate)) < end:
            await asyncio.sleep(due - loop.time())
            group.create_task(run(rng.random() < SHARE, due))
    return times
