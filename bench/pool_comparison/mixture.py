"""The mixture: short tasks that come among long ones, whether or not a worker is free."""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from typing import Any

SHORT, LONG = 0.001, 0.05  # s
SHARE = 0.1  # of the tasks that are long
BUSY = 0.6  # of the workers' time


def short() -> None:
    """Take 1 ms."""
    time.sleep(SHORT)


def long() -> None:
    """Take 50 ms."""
    time.sleep(LONG)


async def measure(pool: Any, workers: int, seconds: float, seed: int) -> array[float]:
    """Give what each short task took in s, since it was due; the same seed asks for the same."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    rate = BUSY * workers / (SHORT * (1 - SHARE) + LONG * SHARE)
    loop = asyncio.get_running_loop()
    times = array("d")

    async def ask(is_long: bool, due: float) -> None:
        await pool.run(long if is_long else short)
        if not is_long:
            times.append(loop.time() - due)

    async with asyncio.TaskGroup() as asked:
        due = loop.time()
        end = due + seconds
        while (due := due + rng.expovariate(rate)) < end:
            await asyncio.sleep(due - loop.time())
            asked.create_task(ask(rng.random() < SHARE, due))
    return times
