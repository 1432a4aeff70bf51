"""The storm: one worker after the other is killed while 64 tasks are at work."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from bench.pool_comparison.payloads import noop
from pipepool import BrokenWorker, PipePool

EVERY = 0.1  # s between two kills
AT_ONCE = 64
CALM = 1 / 3  # of the storm's seconds, before it
NOTICED = 10.0  # s after it in which the last deaths must be noticed


@dataclass(frozen=True)
class Storm:
    """What a storm did: tasks a second that ended well, second by second, before it and in it.

    `failed` tasks were lost in it, which may be no more than the killed workers `held` at the time,
    and `calm_failed` before it, where nothing may be. Every one of the `kills` has to be followed
    by one of the `restarts`.
    """

    idempotent: bool
    calm: list[float]
    calm_failed: int
    rates: list[float]
    done: int
    failed: int
    held: int
    kills: int
    restarts: int


async def measure(workers: int, idempotent: bool, seconds: int) -> Storm:
    """Begin a pool, and kill one of its workers every 100 ms for so many seconds."""
    async with PipePool(workers) as pool:
        calm, calm_failed = await _load(pool, idempotent, max(1, round(seconds * CALM)))
        storm = asyncio.create_task(_kill(pool, seconds))
        rates, failed = await _load(pool, idempotent, seconds)
        kills, held = await storm
        await _noticed(pool, kills)
        done = round(sum(rates))
        restarts = pool.stats().restarts
        return Storm(idempotent, calm, calm_failed, rates, done, failed, held, kills, restarts)


async def _load(pool: PipePool, idempotent: bool, seconds: int) -> tuple[list[float], int]:
    """Keep tasks at work; give how many ended well in each second, and how many failed."""
    done, failed = [0] * seconds, 0
    begin = time.monotonic()

    async def user() -> None:
        nonlocal failed
        while (now := int(time.monotonic() - begin)) < seconds:
            try:
                await pool.run(noop, idempotent=idempotent)
                done[now] += 1
            except BrokenWorker:
                failed += 1

    await asyncio.gather(*(user() for _ in range(AT_ONCE)))
    return [float(count) for count in done], failed


async def _kill(pool: PipePool, seconds: float) -> tuple[int, int]:
    """Kill one worker after the other, each once; give how many, and what they held."""
    killed: set[int] = set()
    held = 0
    end = time.monotonic() + seconds - EVERY
    while time.monotonic() < end:
        await asyncio.sleep(EVERY)
        if living := [pid for pid in pool.stats().pids if pid not in killed]:
            one = random.choice(living)  # noqa: S311 - no secret
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
                killed.add(one)
                held += _held(pool, one)
    return len(killed), held


def _held(pool: PipePool, pid: int) -> int:
    dispatch = pool._scheduler
    links = () if dispatch is None else dispatch.manager.connections.values()
    return sum(len(link.tasks) for link in links if link.pid == pid)


async def _noticed(pool: PipePool, kills: int) -> None:
    """Wait until the pool has followed every kill by a restart; its count tells if it did not."""
    with suppress(TimeoutError):
        async with asyncio.timeout(NOTICED):
            while pool.stats().restarts < kills:
                await asyncio.sleep(EVERY)
