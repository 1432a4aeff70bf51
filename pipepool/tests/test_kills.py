"""A timeout or a cancellation ends its own task and no other."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import psutil
import pytest

from pipepool import BrokenWorker, PipeExecutor, PipePool
from pipepool.scheduling import scheduler
from pipepool.workers import worker_manager
from pipepool.workers.shared_memory import RUNNING
from pool_tests import calls
from pool_tests.helpers import assume_short, has_ended, in_pool, wait_for

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


def test_a_kill_loses_no_result_of_tasks_before() -> None:
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
        fork_server.suspend()  # the results come without its help
        short = [asyncio.ensure_future(pool.run(calls.add, 1)) for _ in range(3)]
        long = asyncio.ensure_future(pool.run(calls.sleep, 20, kill_on_cancel=True))
        await wait_for(lambda: connection.sequence == last)
        await wait_for(lambda: connection.status[RUNNING] == connection.sequence)
        long.cancel()
        assert await asyncio.gather(first, *short) == [1] * 4
        fork_server.resume()
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


@pytest.mark.parametrize(("seconds", "timeout"), [(0.3, None), (20, 0.3)])
def test_a_result_does_not_wait_for_a_task_behind_it_in_c_code(
    seconds: float, timeout: float | None
) -> None:
    """Python runs no code of the worker meanwhile: the parent reads the result in its memory."""

    async def test(pool: PipePool) -> None:
        items = int(calls.items_per_second() * seconds)
        for _ in range(6):
            for _ in range(50):  # the first runs may be slow: after them, results are sent at once
                await pool.run(calls.add, 1)
            assume_short(pool._scheduler, calls.add, calls.loop_in_c)
            first = asyncio.ensure_future(pool.run(calls.add, 1))  # sent alone
            short = [asyncio.ensure_future(pool.run(calls.add, n)) for n in (2, 3)]
            long = asyncio.ensure_future(pool.run(calls.loop_in_c, items, timeout=timeout))
            assert await asyncio.gather(first, *short) == [1, 2, 3]
            assert not long.done()
            [outcome] = await asyncio.gather(long, return_exceptions=True)
            assert type(outcome) is (TimeoutError if timeout else int)

    in_pool(test, 1)


def test_results_that_a_worker_held_when_it_died_are_not_lost() -> None:
    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.same, calls.kill_self)
        values = [None, "text", b"x" * 9000, [1, 2], {"a": bytes(40_000)}, "y" * 31_000]
        for _ in range(20):
            for _ in range(30):
                await pool.run(calls.same, 1)
            assume_short(pool._scheduler, calls.same, calls.kill_self)
            first = asyncio.ensure_future(pool.run(calls.same, 1))  # sent alone
            held = [asyncio.ensure_future(pool.run(calls.same, each)) for each in values]
            dies = asyncio.ensure_future(pool.run(calls.kill_self))
            assert await asyncio.gather(first, *held) == [1, *values]
            with pytest.raises(BrokenWorker):
                await dies

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


def test_kill_on_cancel_kills_the_task_of_a_coroutine_that_is_closed() -> None:
    async def test(pool: PipePool) -> None:
        call = pool.run(calls.sleep, 20, kill_on_cancel=True)
        call.send(None)  # as a loop does; now it waits for the result
        assert pool._scheduler is not None
        [connection] = pool._scheduler.manager.open
        await wait_for(connection.running)
        call.close()
        await wait_for(lambda: pool.stats().killed == 1)
        assert await pool.run(calls.add, 1) == 1
        queued = [asyncio.ensure_future(pool.run(calls.sleep, 0.2)) for _ in range(2)]
        await asyncio.sleep(0.01)
        call = pool.run(calls.sleep, 20)
        call.send(None)
        call.close()  # while it waits for a worker: it never runs
        await asyncio.gather(*queued)
        assert await pool.run(calls.add, 1) == 1
        assert pool.stats().cancelled == 2

    in_pool(test, 1)


@pytest.mark.parametrize("timeout", [0, -1, 0.0])
def test_a_timeout_of_zero_or_less_is_always_exceeded(timeout: float) -> None:
    async def test(pool: PipePool) -> None:
        for n in range(30):
            with pytest.raises(TimeoutError, match="no time to run"):
                await pool.run(calls.add, n, timeout=timeout)
        assert pool.stats().failed == 30
        assert pool.stats().killed == 0
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)
    with PipeExecutor(1) as executor:
        with pytest.raises(TimeoutError, match="no time to run"):  # not the timeout of result
            executor.submit_with(calls.add, 1, timeout=timeout).result(20)
        assert executor.submit(calls.add, 1).result(20) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd_open")
def test_a_task_is_killed_while_the_fork_server_is_stopped() -> None:
    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        fork_server = psutil.Process(pid).parent()
        assert fork_server is not None
        fork_server.suspend()
        try:
            with pytest.raises(TimeoutError):
                await pool.run(calls.sleep, 20, timeout=0.1)
            await wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        finally:
            fork_server.resume()
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd_open")
def test_close_ends_although_the_fork_server_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_manager, "NO_REPORT", 1.5)

    async def test() -> None:
        pool = PipePool(1)
        await pool.start()
        [pid] = pool.stats().pids
        fork_server = psutil.Process(pid).parent()
        assert fork_server is not None
        await pool.run(calls.leave_thread, 300)  # the worker does not end by itself
        fork_server.suspend()
        await pool.close(grace=None)
        await wait_for(lambda: has_ended(pid) and has_ended(fork_server.pid))

    asyncio.run(asyncio.wait_for(test(), 30))
