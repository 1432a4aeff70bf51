"""Tasks behind one that is unexpectedly long are revoked, and nothing else changes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pipepool import PipePool
from pipepool.scheduling import scheduler
from pipepool.workers import shared_memory
from pool_tests import calls
from pool_tests.helpers import LIMIT, assume_short, in_pool, wait_for

pytestmark = pytest.mark.server  # starts worker processes


class Calls:
    """Calls of a function with a short estimate: `long` runs first, `short` wait behind it.

    `long` runs until `end_long()`, so that a busy machine has time for what happens meanwhile.
    """

    def __init__(self, pool: PipePool, folder: Path, behind: int, **options: Any):
        assume_short(pool._scheduler, calls.long_until)
        path, self._end = str(folder / "ran"), folder / "end"
        self.long = asyncio.ensure_future(pool.run(calls.long_until, path, 0, str(self._end)))
        self.short = [
            asyncio.ensure_future(pool.run(calls.long_until, path, number, **options))
            for number in range(1, behind + 1)
        ]

    def end_long(self) -> None:
        self._end.touch()


def test_tasks_behind_one_that_is_unexpectedly_long_go_to_other_workers(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        tasks = Calls(pool, tmp_path, 40)
        assert await asyncio.gather(*tasks.short) == [*range(1, 41)]
        assert not tasks.long.done()
        tasks.end_long()
        assert await tasks.long == 0
        assert pool.stats().done == 41

    in_pool(test)


@pytest.mark.parametrize("behind", [1, 2, 10])
def test_a_revoked_task_is_run_by_its_worker_if_there_is_no_other(
    behind: int, tmp_path: Path
) -> None:
    async def test(pool: PipePool) -> None:
        tasks = Calls(pool, tmp_path, behind)
        await wait_for(lambda: pool.stats().queued == behind)
        assert pool.stats().running == 1
        tasks.end_long()
        assert await asyncio.gather(tasks.long, *tasks.short) == [*range(behind + 1)]
        assert (tmp_path / "ran").read_text().split() == [str(n) for n in range(behind + 1)]

    in_pool(test, 1)


def test_the_estimate_of_a_function_rises_during_its_first_long_run(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        known = pool._scheduler._functions.get(calls.long_until)
        tasks = Calls(pool, tmp_path, 3)
        await wait_for(lambda: pool.stats().queued == 3)
        assert known.estimate is not None and known.estimate > scheduler.STUCK
        assert not tasks.long.done()
        tasks.end_long()
        await asyncio.gather(tasks.long, *tasks.short)

    in_pool(test, 1)


def test_a_revoked_task_can_be_cancelled(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        tasks = Calls(pool, tmp_path, 10)
        await wait_for(lambda: pool.stats().queued == 10)
        tasks.short[4].cancel()
        await asyncio.sleep(0)
        assert pool.stats().queued == 9
        tasks.end_long()
        await asyncio.wait([tasks.long, *tasks.short])
        assert (tmp_path / "ran").read_text().split() == [str(n) for n in range(11) if n != 5]

    in_pool(test, 1)


def test_tasks_that_are_revoked_too_late_stay_with_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "STUCK", 10**15)  # only this test revokes tasks

    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        [connection] = pool._scheduler.manager.open
        path = str(tmp_path / "ran")
        assume_short(pool._scheduler, calls.sometimes_long)
        args = [(path, 0, 0.2), (path, 1, 0.5), (path, 2)]
        tasks = [asyncio.ensure_future(pool.run(calls.sometimes_long, *each)) for each in args]
        await wait_for(lambda: len(connection.tasks) == 3)
        first = min(connection.tasks.values(), key=lambda task: task.sequence)
        await wait_for(lambda: connection.status[shared_memory.RUNNING] == first.sequence + 1)
        pool._scheduler._take_revoked(
            connection, first, connection.sequence
        )  # it has gone on meanwhile
        assert await asyncio.gather(*tasks) == [0, 1, 2]
        assert sorted((tmp_path / "ran").read_text().split()) == ["0", "1", "2"]

    in_pool(test, 1)


async def revoke_tasks(pool: PipePool, folder: Path) -> None:
    """Revoke a worker's tasks, and wait until it has reported that it skipped them."""
    tasks = Calls(pool, folder, 20)
    await asyncio.gather(*tasks.short)
    assert not tasks.long.done()
    tasks.end_long()
    await tasks.long
    assert pool._scheduler is not None
    connections = pool._scheduler.manager.open
    await wait_for(
        lambda: all(each.status[shared_memory.RUNNING] == each.sequence for each in connections)
    )
    await asyncio.sleep(0.1)  # its results come in several frames


def test_a_worker_whose_tasks_were_revoked_is_listed_as_idle_once(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        await revoke_tasks(pool, tmp_path)
        assert pool._scheduler is not None
        idle = pool._scheduler.manager.idle
        assert len(idle) == len({*idle}) == 2

    in_pool(test)


def test_no_task_is_lost_when_a_worker_is_killed_after_a_revocation(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        await revoke_tasks(pool, tmp_path)
        old = pool.stats().pids
        for pid in old:
            os.kill(pid, signal.SIGKILL)
        await wait_for(lambda: not {*old} & {*pool.stats().pids} and len(pool.stats().pids) == 2)
        tasks = [asyncio.ensure_future(pool.run(calls.add, 1, timeout=0.2)) for _ in range(6)]
        done, _ = await asyncio.wait(tasks, timeout=3.0)
        for task in tasks:
            task.cancel()
        assert len(done) == 6

    async def body() -> None:
        pool = PipePool(2)
        await pool.start()
        try:
            await test(pool)
        finally:
            await pool.close(0)

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_tasks_behind_a_long_one_of_a_worker_that_retires_go_to_others(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        tasks = Calls(pool, tmp_path, 15)
        await asyncio.gather(*tasks.short)
        assert not tasks.long.done()
        tasks.end_long()

    in_pool(test, max_tasks_per_child=8)


def test_a_revoked_task_keeps_its_queue_timeout(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        tasks = Calls(pool, tmp_path, 1, queue_timeout=0.1)
        await asyncio.wait(tasks.short)
        assert isinstance(tasks.short[0].exception(), TimeoutError)
        assert not tasks.long.done()
        tasks.end_long()

    in_pool(test, 1)
