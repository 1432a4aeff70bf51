"""Choosing a worker for a task, and replacing workers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import weakref
from pathlib import Path

import psutil
import pytest

from pipepool import PipePool
from pipepool.scheduling import scheduler
from pipepool.workers import shared_memory
from pool_tests import calls
from pool_tests.helpers import assume_short, in_pool, wait_for

pytestmark = pytest.mark.server  # starts worker processes

BEYOND = 70 << 20  # bytes: more than the shared memory and a socket take


def test_a_worker_with_unsent_data_is_assigned_no_more_tasks() -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        assume_short(pool._scheduler, calls.length, calls.add)
        stopped = next(reversed(pool._scheduler.manager.idle))
        assert stopped.pid is not None
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            large = asyncio.ensure_future(pool.run(calls.length, bytes(BEYOND)))
            await wait_for(lambda: stopped.tasks)
            small = [asyncio.ensure_future(pool.run(calls.add, n)) for n in range(20)]
            await asyncio.wait(small, timeout=5)
            assert [task.done() and task.result() for task in small] == [*range(20)]
            assert not large.done()
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        assert await large == ("bytes", BEYOND)

    in_pool(test)


def test_a_successor_is_started_before_a_worker_reaches_its_number_of_tasks() -> None:
    async def test(pool: PipePool) -> None:
        [first] = pool.stats().pids
        for _ in range(6):
            assert await pool.run(calls.pid) == first
        assert pool.stats().pids == (first,)
        assert await pool.run(calls.pid) == first
        await wait_for(lambda: len(pool.stats().pids) == 2)  # with one task left of 8
        [second] = {*pool.stats().pids} - {first}
        assert await pool.run(calls.pid) == first
        assert await pool.run(calls.pid) == second
        assert pool.stats().restarts == 0

    in_pool(test, 1, max_tasks_per_child=8)


def test_each_worker_has_a_successor_though_another_still_runs_its_last_task() -> None:
    async def test(pool: PipePool) -> None:
        first = await pool.run(calls.pid)
        last = asyncio.ensure_future(pool.run(calls.sleep, 2.0))  # its second and last one
        await wait_for(lambda: (pool.stats().running, len(pool.stats().pids)) == (1, 3))
        second = await pool.run(calls.pid)
        await wait_for(lambda: len(pool.stats().pids) == 4)
        assert not last.done()
        assert await last == first != second

    in_pool(test, 2, max_tasks_per_child=2)


def test_a_worker_that_is_about_to_be_killed_starts_no_other_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "STUCK", 10**15)  # so that no task is revoked before

    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        assume_short(pool._scheduler, calls.sometimes_long)
        ran = tmp_path / "ran"
        [connection] = pool._scheduler.manager.open
        fork_server = psutil.Process(connection.pid).parent()
        assert fork_server is not None
        first = asyncio.ensure_future(pool.run(calls.sometimes_long, str(ran), 0, 1.0, timeout=0.3))
        behind = [
            asyncio.ensure_future(pool.run(calls.sometimes_long, str(ran), n)) for n in (1, 2)
        ]
        await wait_for(lambda: connection.running() and len(connection.tasks) == 3)
        fork_server.suspend()  # it is the one that kills
        try:
            await asyncio.wait([first])
            assert isinstance(first.exception(), TimeoutError)
            await wait_for(
                lambda: connection.status[shared_memory.RUNNING] == connection.sequence
            )  # it has gone through all
            assert ran.read_text().split() == ["0"]
        finally:
            fork_server.resume()
        assert await asyncio.gather(*behind) == [1, 2]
        assert sorted(ran.read_text().split()) == ["0", "1", "2"]

    in_pool(test, 1)


class Argument:
    """A value that a weak reference can watch, and that arrives as 0."""

    def __reduce__(self) -> tuple[type[int], tuple[()]]:
        return int, ()


def test_a_task_that_has_ended_is_not_kept_alive_until_its_timeout() -> None:
    async def test(pool: PipePool) -> None:
        argument = Argument()
        reference = weakref.ref(argument)
        assert await pool.run(abs, argument, timeout=1000) == 0
        del argument
        gc.collect()
        assert reference() is None

    in_pool(test, 1)


def test_a_task_that_failed_is_freed_without_garbage_collection() -> None:
    async def test(pool: PipePool) -> None:
        busy = asyncio.ensure_future(pool.run(calls.sleep, 0.5))
        await wait_for(lambda: pool.stats().running == 1)
        argument = Argument()
        reference = weakref.ref(argument)
        with contextlib.suppress(TimeoutError):
            await pool.run(abs, argument, queue_timeout=0.01)
        del argument
        await asyncio.sleep(0)
        assert reference() is None
        await busy

    gc.disable()
    try:
        in_pool(test, 1)
    finally:
        gc.enable()


def test_a_large_result_that_nobody_waits_for_frees_its_memory() -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        [connection] = pool._scheduler.manager.open
        for _ in range(3):
            task = asyncio.ensure_future(pool.run(calls.data, 1 << 20, 0.2))
            await wait_for(lambda: connection.tasks)
            task.cancel()
            await asyncio.wait([task])
            await wait_for(lambda: not connection.tasks)
            assert task.cancelled()
        assert not any(bytes(connection.decoder._arena._states))

    in_pool(test, 1)
