"""A pool starts completely or reports why not, and leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pipepool import BrokenWorker, PipeExecutor, PipePool
from pool_tests import calls
from pool_tests.helpers import ENVIRONMENT, LIMIT, in_pool, wait_for, wait_until

pytestmark = pytest.mark.server  # starts worker processes

ENDING = 1.5  # s; it takes less than 0.5 s on an idle machine


def is_counted(process: psutil.Process) -> bool:
    """Whether a process runs, and is not multiprocessing's tracker."""
    try:
        return "multiprocessing.resource_tracker" not in " ".join(process.cmdline())
    except psutil.Error:  # a zombie, or gone since
        return False


@pytest.fixture
def leftover_pids() -> Callable[[], set[int]]:
    """Return a function that lists the processes started since, without the resource tracker."""

    def children() -> set[int]:
        return {each.pid for each in psutil.Process().children(recursive=True) if is_counted(each)}

    before = children()
    return lambda: children() - before


def test_a_timeout_around_a_pool_ends_it_and_its_tasks(
    leftover_pids: Callable[[], set[int]],
) -> None:
    async def body() -> float:
        async with asyncio.timeout(LIMIT):
            with pytest.raises(TimeoutError):
                async with PipePool(2) as pool, asyncio.timeout(0.1):
                    began = time.monotonic()
                    await pool.run(calls.sleep, 30)
        return time.monotonic() - began

    assert asyncio.run(body()) < 0.1 + ENDING
    assert leftover_pids() == set()


def test_a_start_that_is_cancelled_leaves_no_process(leftover_pids: Callable[[], set[int]]) -> None:
    async def body() -> None:
        pool = PipePool(2, calls.sleep, (30,))
        starting = asyncio.ensure_future(pool.start())
        await asyncio.sleep(0.3)
        began = time.monotonic()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert time.monotonic() - began < ENDING
        assert leftover_pids() == set()

    asyncio.run(asyncio.wait_for(body(), LIMIT))


@pytest.mark.parametrize("callers", [1, 2])
def test_a_start_that_is_cancelled_when_the_workers_are_ready_leaves_no_process(
    callers: int, leftover_pids: Callable[[], set[int]]
) -> None:
    async def body() -> None:
        pool = PipePool(1)
        starting = [asyncio.ensure_future(pool.start()) for _ in range(callers)]
        await asyncio.sleep(0)
        assert pool._scheduler is not None
        for each in starting:
            pool._scheduler.manager.started.add_done_callback(lambda _, each=each: each.cancel())  # type: ignore[misc]
        outcomes = await asyncio.gather(*starting, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in outcomes)
        assert leftover_pids() == set()
        await pool.start()
        second = asyncio.ensure_future(pool.start())
        second.cancel()
        await asyncio.wait([second])
        assert await pool.run(calls.add, 1) == 1  # a start that has returned keeps the pool
        await pool.close()

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_a_cancelled_start_that_still_ends_hides_no_other(
    leftover_pids: Callable[[], set[int]],
) -> None:
    async def test() -> None:
        pool = PipePool(1, time.sleep, (60,))
        first = asyncio.ensure_future(pool.start())
        await asyncio.sleep(0.2)
        first.cancel()
        await asyncio.sleep(0)
        second = asyncio.ensure_future(pool.start())
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.wait([first, second])
        third = asyncio.ensure_future(pool.start())
        await asyncio.sleep(0.2)
        third.cancel()
        await asyncio.sleep(0)
        await pool.close()
        assert leftover_pids() == set()

    asyncio.run(asyncio.wait_for(test(), LIMIT))


def test_a_cancelled_close_beside_a_cancelled_start_leaves_no_process(
    leftover_pids: Callable[[], set[int]],
) -> None:
    async def test() -> None:
        pool = PipePool(1, time.sleep, (60,))
        first = asyncio.ensure_future(pool.start())
        await asyncio.sleep(0.2)
        first.cancel()
        while pool._scheduler is not None:
            await asyncio.sleep(0)
        second = asyncio.ensure_future(pool.start())  # while the first one still ends
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(pool.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([first, second, closing])
        assert isinstance(second.exception(), BrokenWorker)
        assert leftover_pids() == set()

    asyncio.run(asyncio.wait_for(test(), LIMIT))


def test_a_close_that_is_cancelled_kills_running_tasks(
    leftover_pids: Callable[[], set[int]],
) -> None:
    async def body() -> None:
        pool = PipePool(2)
        await pool.start()
        running = asyncio.ensure_future(pool.run(calls.sleep, 30))
        await asyncio.sleep(0.1)
        closing = asyncio.ensure_future(pool.close())
        await asyncio.sleep(0.1)
        began = time.monotonic()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert time.monotonic() - began < ENDING
        assert leftover_pids() == set()
        with pytest.raises(BrokenWorker, match="closed"):
            await running

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_a_pool_that_cannot_start_raises_the_cause_for_every_caller() -> None:
    async def body() -> None:
        pool = PipePool(1, calls.fail_to_initialize)
        outcomes = await asyncio.gather(pool.start(), pool.start(), return_exceptions=True)
        outcomes += await asyncio.gather(pool.start(), return_exceptions=True)
        assert [type(each) for each in outcomes] == [BrokenWorker] * 3
        assert all("no database" in str(each) for each in outcomes)

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_an_initializer_that_fails_once_after_the_first_start_is_retried(
    tmp_path: Path,
) -> None:
    flag = tmp_path / "fails once"

    async def test(pool: PipePool) -> None:
        flag.touch()
        pids = pool.stats().pids
        os.kill(psutil.Process(pids[0]).ppid(), 9)
        await wait_for(lambda: not flag.exists())
        async with asyncio.timeout(LIMIT):
            assert await pool.run(calls.add, 1, timeout=9) == 1

    in_pool(test, 1, initializer=calls.initialize_unless, initargs=(str(flag),))


def test_a_pool_starts_with_the_workers_that_are_ready_within_start_timeout(
    tmp_path: Path,
) -> None:
    async def test(pool: PipePool) -> None:
        assert len(pool.stats().pids) == 1
        assert await pool.run(calls.add, 1) == 1
        assert await pool.run(calls.add, 2, timeout=5) == 2

    settings = {"initializer": calls.sleep_unless_first, "initargs": (str(tmp_path / "one"), 60)}
    in_pool(test, 2, start_timeout=3, **settings)  # type: ignore[arg-type]


def test_a_pool_starts_although_its_loop_was_blocked_for_longer_than_start_timeout() -> None:
    async def body() -> None:
        pool = PipePool(1, start_timeout=2)
        starting = asyncio.ensure_future(pool.start())
        began = time.monotonic()
        await asyncio.sleep(0)
        assert pool._scheduler is not None
        control = pool._scheduler.manager._fork_server._control
        assert select.select([control], [], [], LIMIT)[0]  # the fork server is ready
        time.sleep(max(0.0, began + 2.1 - time.monotonic()))
        try:
            await starting
            assert await pool.run(calls.add, 1) == 1
        finally:
            await pool.close()

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_a_replacement_whose_initializer_hangs_is_killed_after_start_timeout(
    tmp_path: Path,
) -> None:
    flag = tmp_path / "hangs"

    async def test(pool: PipePool) -> None:
        flag.touch()
        os.kill(pool.stats().pids[0], signal.SIGKILL)
        await wait_for(lambda: not flag.exists())
        assert await pool.run(calls.add, 1) == 1

    initargs = str(flag), 60
    in_pool(test, 1, initializer=calls.sleep_if, initargs=initargs, start_timeout=3)


def test_a_fork_server_whose_import_hangs_is_killed_after_start_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag, module = tmp_path / "hangs", tmp_path / "may_hang.py"
    module.write_text(f"from pool_tests import calls\ncalls.sleep_if({str(flag)!r}, 60)")
    monkeypatch.syspath_prepend(tmp_path)

    async def test(pool: PipePool) -> None:
        flag.touch()
        os.kill(psutil.Process(pool.stats().pids[0]).ppid(), signal.SIGKILL)
        await wait_for(lambda: not flag.exists())
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1, preload=[module.stem], start_timeout=3)


def test_a_worker_that_damages_its_data_while_it_starts_is_restarted_after_a_pause() -> None:
    with pytest.raises(BrokenWorker, match="before it was ready"):
        in_pool(lambda _: asyncio.sleep(0), 1, initializer=calls.send_garbage)


PRELOADED = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
STARTING = """
import asyncio
from pipepool import PipePool
async def main():
    async with PipePool(1, preload=["starts_a_thread"]) as pool:
        print(await pool.run(len, "abc"))
if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(), 15))
"""


def test_a_warning_that_is_an_error_does_not_prevent_the_start(tmp_path: Path) -> None:
    (tmp_path / "starts_a_thread.py").write_text(PRELOADED)
    environment = ENVIRONMENT | {"PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{tmp_path}"}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", STARTING]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT, env=environment)
    assert (done.returncode, done.stdout) == (0, b"3\n")
    assert b"a fork may deadlock" in done.stderr


def test_an_unused_executor_works_in_a_forked_child_and_in_the_parent() -> None:
    with PipeExecutor(1) as executor:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = b"-"
            try:
                with executor:
                    code = str(executor.submit(calls.add, 40, 2).result(LIMIT)).encode()
            finally:
                os.write(writing, code)
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            assert file.read() == b"42"
        os.waitpid(child, 0)
        assert executor.submit(calls.add, 1).result(LIMIT) == 1


def test_an_executor_that_was_used_before_a_fork_raises_in_the_child() -> None:
    with PipeExecutor(1) as executor:
        executor.submit(calls.add, 1).result(LIMIT)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                executor.submit(calls.add, 1)
            except RuntimeError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            assert b"belongs to the process that forked this one" in file.read()
        os.waitpid(child, 0)
        assert executor.submit(calls.add, 1).result(LIMIT) == 1


def test_a_start_after_a_cancelled_start_starts_again(tmp_path: Path) -> None:
    async def body() -> None:
        pool = PipePool(1, calls.sleep_once, (str(tmp_path / "slept"), 30))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.start(), 2.0)
        await pool.start()
        assert await pool.run(calls.add, 1) == 1
        await pool.close()

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_a_cancelled_start_leaves_the_pool_to_others_that_wait_for_it() -> None:
    async def body() -> None:
        pool = PipePool(1, calls.sleep, (0.5,))
        first, second = (asyncio.ensure_future(pool.start()) for _ in range(2))
        await asyncio.sleep(0.1)
        first.cancel()
        await second
        assert first.cancelled()
        assert await pool.run(calls.add, 1) == 1
        await pool.close()

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_a_close_completes_although_all_tasks_are_cancelled(
    leftover_pids: Callable[[], set[int]],
) -> None:
    async def body() -> None:
        pool = PipePool(2)
        await pool.start()
        closing = asyncio.ensure_future(pool.close(0))
        for _ in range(3):
            await asyncio.sleep(0)
            for each in asyncio.all_tasks() - {asyncio.current_task()}:
                each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert leftover_pids() == set()

    asyncio.run(body())


def test_a_pool_whose_fork_server_is_stopped_can_be_closed(
    leftover_pids: Callable[[], set[int]],
) -> None:
    async def body() -> None:
        pool = PipePool(1)
        await pool.start()
        os.kill(psutil.Process(pool.stats().pids[0]).ppid(), signal.SIGSTOP)
        await pool.close(0)

    asyncio.run(asyncio.wait_for(body(), LIMIT))
    assert wait_until(lambda: not leftover_pids())


def test_the_fork_server_imports_no_event_loop() -> None:
    code = "import sys, pipepool.workers.fork_server; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stderr
    assert not {"asyncio", "logging", "concurrent.futures"} & {*done.stdout.split()}


def test_a_grace_that_is_no_number_is_an_error_and_ends_no_task() -> None:
    async def body() -> None:
        pool = PipePool(1)
        await pool.start()
        running = asyncio.ensure_future(pool.run(calls.sleep_for, 0.3))
        await wait_for(lambda: pool.stats().running == 1)
        with pytest.raises(TypeError, match=r"^grace must be a number of seconds"):
            await pool.close("1s")  # type: ignore[arg-type]
        assert await running == 0.3
        assert await pool.run(calls.add, 1) == 1
        await pool.close(1)

    asyncio.run(asyncio.wait_for(body(), LIMIT))
