"""A storm: workers are killed ten times a second, under 64 tasks at once.

`STRICT=1` makes it half a minute, and asks for the rate that the pool is to keep.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress

import pytest

from executors.pipes import BrokenWorker, PipePool
from tests.executors import calls
from tests.executors.conftest import lives

STRICT = "STRICT" in os.environ
SECONDS = 30.0 if STRICT else 3.0
EVERY = 0.1  # s between two kills
AT_ONCE = 64
KEPT = 0.8 if STRICT else 0.3  # of the rate without kills


@pytest.mark.parametrize("idempotent", [True, False])
def test_killed_workers_cost_at_most_the_task_that_each_ran(idempotent: bool) -> None:
    async def test() -> None:
        async with asyncio.timeout(3 * SECONDS + 10), PipePool(2) as pool:
            calm, failed = await load(pool, idempotent, SECONDS / 3)
            assert failed == 0
            storm = asyncio.create_task(kill(pool, SECONDS))
            rate, failed = await load(pool, idempotent, SECONDS)
            kills = await storm
            assert failed <= (0 if idempotent else kills)
            assert (pool.stats().restarts, len(pool.stats().pids)) == (kills, 2)
            assert rate > KEPT * calm

    asyncio.run(test())


async def load(pool: PipePool, idempotent: bool, seconds: float) -> tuple[float, int]:
    """Keep tasks at work; give how many a second ended well, and how many failed."""
    done = failed = 0
    end = time.monotonic() + seconds

    async def user() -> None:
        nonlocal done, failed
        while time.monotonic() < end:
            try:
                assert await pool.run(calls.add, done, idempotent=idempotent) >= 0
                done += 1
            except BrokenWorker:
                failed += 1

    await asyncio.gather(*(user() for _ in range(AT_ONCE)))
    return done / seconds, failed


async def kill(pool: PipePool, seconds: float) -> int:
    """Kill one worker after the other; give how many."""
    kills = 0
    end = time.monotonic() + seconds - 2 * EVERY  # the last is replaced before the load ends
    while time.monotonic() < end:
        await asyncio.sleep(EVERY)
        living = [pid for pid in pool.stats().pids if lives(pid)]
        if living:
            with suppress(ProcessLookupError):
                os.kill(random.choice(living), signal.SIGKILL)
                kills += 1
    return kills
