"""Which worker gets what, and when another one is begun."""

from __future__ import annotations

import asyncio
import os
import signal

from executors.pipes import PipePool
from tests.executors import calls
from tests.executors.conftest import in_pool, take_for_short, wait_for

BEYOND = 70 << 20  # bytes: more than the shared memory and a socket take


def test_a_worker_that_does_not_take_what_it_was_sent_is_sent_no_more() -> None:
    async def test(pool: PipePool) -> None:
        assert pool._dispatch is not None
        take_for_short(pool._dispatch, calls.length, calls.add)
        stopped = pool._dispatch.staff.idle[-1]
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


def test_a_successor_is_begun_before_a_worker_has_had_its_number_of_tasks() -> None:
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
