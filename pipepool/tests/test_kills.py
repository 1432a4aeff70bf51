"""A timeout or a cancellation ends its own task and no other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import psutil
import pytest

from pipepool import PipeExecutor, PipePool
from pipepool.scheduling import scheduler
from pipepool.workers.shared_memory import RUNNING
from pool_tests import calls
from pool_tests.helpers import assume_short, in_pool, wait_for

pytestmark = pytest.mark.server  # starts worker processes


def test_kill_on_cancel_kills_a_task_that_was_only_just_sent() -> None:
    async def test(pool: PipePool) -> None:
        deadly = asyncio.ensure_future(pool.run(calls.sleep, 20, kill_on_cancel=True))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        deadly.cancel()
        async with asyncio.timeout(10):
            assert await pool.run(calls.add, 1) == 1
        with pytest.raises(asyncio.CancelledError):
            await deadly

    in_pool(test, 1)


def test_a_timeout_kills_no_worker_that_has_gone_on_to_another_task() -> None:
    async def test(pool: PipePool) -> None:
        for _ in range(40):
            assume_short(pool._scheduler, calls.sleep)
            first = asyncio.ensure_future(pool.run(calls.sleep, 0.005, timeout=0.005))
            rest = [pool.run(calls.sleep, 0.0) for _ in range(4)]
            await asyncio.gather(*rest)  # none of them gets BrokenWorker
            await asyncio.wait([first])
            first.exception()

    in_pool(test, 1)


def test_no_call_waits_behind_a_long_one_after_tasks_were_revoked() -> None:
    with PipeExecutor(2) as executor:
        executor.submit(calls.sleep, 0.0).result(10)
        assume_short(executor._engine._scheduler, calls.sleep)
        long = executor.submit(calls.sleep, 0.3)
        list(executor.map(calls.sleep, [0.0] * 60))
        long.result(10)
        busy = executor.submit(calls.sleep, 1.5)
        for _ in range(10):
            executor.submit(calls.add, 1).result(10)
        assert not busy.done()


@pytest.mark.parametrize(("limit", "stall"), [(10.0, 0.05), (scheduler.FLUSH_TIMEOUT, 0.3)])
def test_a_kill_waits_for_the_results_of_tasks_before(
    limit: float, stall: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "FLUSH_TIMEOUT", limit)

    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.add, calls.sleep)
        assert pool._scheduler is not None
        [connection] = pool._scheduler.manager.open
        fork_server = psutil.Process(connection.pid).parent()
        assert fork_server is not None
        for _ in range(100):  # the first runs may be slow: after them, results are sent at once
            await pool.run(calls.add, 1)
        last = connection.sequence + 5
        first = asyncio.ensure_future(pool.run(calls.add, 1))  # sent alone
        fork_server.suspend()  # it gets no CPU: it forwards the flush and the kill together
        short = [asyncio.ensure_future(pool.run(calls.add, 1)) for _ in range(3)]
        long = asyncio.ensure_future(pool.run(calls.sleep, 20, kill_on_cancel=True))
        await wait_for(lambda: connection.sequence == last)
        await wait_for(lambda: connection.status[RUNNING] == connection.sequence)
        long.cancel()
        await asyncio.sleep(stall)
        fork_server.resume()
        assert await asyncio.gather(first, *short) == [1] * 4
        await wait_for(lambda: pool.stats().killed == 1)

    in_pool(test, 1)


def test_kills_of_the_tasks_before_do_not_fail_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "STUCK", 10**15)  # so that no task is revoked before

    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.sleep, calls.add)
        first = asyncio.ensure_future(pool.run(calls.add, 1))  # sent alone
        long = [asyncio.ensure_future(pool.run(calls.sleep, 20, timeout=0.05)) for _ in range(4)]
        behind = asyncio.ensure_future(pool.run(calls.add, 2))
        outcomes = await asyncio.gather(*long, return_exceptions=True)
        assert [type(each) for each in outcomes] == [TimeoutError] * 4
        assert (await first, await behind) == (1, 2)

    in_pool(test, 1)


def test_a_kill_does_not_wait_for_results_that_do_not_come() -> None:
    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.add, calls.sleep_without_signals)
        for _ in range(100):  # the first runs may be slow: after them, results are sent at once
            await pool.run(calls.add, 1)
        first = asyncio.ensure_future(pool.run(calls.add, 1))
        short = asyncio.ensure_future(pool.run(calls.add, 1))
        long = asyncio.ensure_future(pool.run(calls.sleep_without_signals, 20, timeout=0.1))
        began = time.monotonic()
        *_, outcome = await asyncio.gather(first, short, long, return_exceptions=True)
        assert isinstance(outcome, TimeoutError)
        await wait_for(lambda: pool.stats().restarts == 1, 10)
        assert time.monotonic() - began < 10

    in_pool(test, 1)


LARGE_RESULTS = """
import asyncio, os, signal
from pathlib import Path
from pipepool import PipePool

def memory_kib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))

async def main():
    async with PipePool(1) as pool:
        for life in range(6):
            await pool.run(bytes, 200_000, idempotent=True)
            if life == 0:
                before = memory_kib()
            os.kill(await pool.run(os.getpid, idempotent=True), signal.SIGKILL)
        print(memory_kib() - before)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_that_are_replaced_need_no_memory_of_their_parent() -> None:
    """Before, the first large result of the third worker made the heap grow by 16 MiB."""
    ended = subprocess.run(
        [sys.executable, "-c", LARGE_RESULTS], capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 4 * 1024
