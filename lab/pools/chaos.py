"""Chaos test: kill workers one after another while 64 tasks run concurrently."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from lab.pools.payloads import noop
from pipepool import BrokenWorker, PipePool

KILL_INTERVAL = 0.1  # s between two kills
CONCURRENCY = 64
CALM_SHARE = 1 / 3  # duration before the kills, as a share of the duration with kills
RESTART_TIMEOUT = 10.0  # s for the pool to restart the last workers


@dataclass(frozen=True)
class ChaosResult:
    """Throughput in each second, in tasks/s: `calm` before the kills, `rates` during them.

    `held` is the number of tasks that the killed workers had, which is the maximum of `failed`.
    `calm_failed` must be 0, and `restarts` must equal `kills`.
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


async def run_chaos(workers: int, idempotent: bool, seconds: int) -> ChaosResult:
    """Start a pool, and kill one of its workers every 100 ms for `seconds`."""
    logging.getLogger("pipepool").setLevel(logging.ERROR)  # it reports each killed worker
    async with PipePool(workers) as pool:
        calm, calm_failed = await _load(pool, idempotent, max(1, round(seconds * CALM_SHARE)))
        killing = asyncio.create_task(_kill(pool, seconds))
        rates, failed = await _load(pool, idempotent, seconds)
        kills, held = await killing
        await _wait_for_restarts(pool, workers, kills)
        done = round(sum(rates))
        restarts = pool.stats().restarts
        return ChaosResult(
            idempotent, calm, calm_failed, rates, done, failed, held, kills, restarts
        )


async def _load(pool: PipePool, idempotent: bool, seconds: int) -> tuple[list[float], int]:
    """Run 64 concurrent tasks; return how many completed in each second, and how many failed."""
    done, failed = [0] * seconds, 0
    start = time.monotonic()

    async def user() -> None:
        nonlocal failed
        while time.monotonic() - start < seconds:
            try:
                await pool.run(noop, idempotent=idempotent)
                done[min(int(time.monotonic() - start), seconds - 1)] += 1
            except BrokenWorker:
                failed += 1

    await asyncio.gather(*(user() for _ in range(CONCURRENCY)))
    return [float(count) for count in done], failed


async def _kill(pool: PipePool, seconds: float) -> tuple[int, int]:
    """Kill one worker after another; return how many, and how many tasks they held."""
    killed: set[int] = set()
    held = 0
    end = time.monotonic() + seconds - KILL_INTERVAL
    while time.monotonic() < end:
        await asyncio.sleep(KILL_INTERVAL)
        if running := [pid for pid in pool.stats().pids if pid not in killed]:
            victim = random.choice(running)  # noqa: S311 - no secret
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                killed.add(victim)
                held += _count_tasks(pool, victim)
    return len(killed), held


def _count_tasks(pool: PipePool, pid: int) -> int:
    assert pool._scheduler is not None
    connections = pool._scheduler.manager.connections.values()
    return sum(len(each.tasks) for each in connections if each.pid == pid)


async def _wait_for_restarts(pool: PipePool, workers: int, kills: int) -> None:
    """Wait until `kills` workers were restarted and all are running, or the timeout expires."""
    with suppress(TimeoutError):
        async with asyncio.timeout(RESTART_TIMEOUT):
            while pool.stats().restarts < kills or len(pool.stats().pids) < workers:
                await asyncio.sleep(KILL_INTERVAL)
