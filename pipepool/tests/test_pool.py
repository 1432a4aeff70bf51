"""Results, options and limits of a pool when no task fails."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tornado.ioloop import IOLoop

from pipepool import PipePool, QueueFull
from pool_tests import calls
from pool_tests.helpers import ENVIRONMENT, LIMIT, in_pool, wait_for

pytestmark = pytest.mark.server  # starts worker processes


def test_a_result_is_what_the_function_returns() -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.add, 1, 2) == 3
        assert await pool.run(partial(calls.add, b=5), 1) == 6
        assert await pool.run("x".upper) == "X"
        assert await pool.run(len, [1, 2]) == 2
        assert await pool.run(dict, [(1, 2)]) == {1: 2}

    in_pool(test)


def on_tornado(body: Any) -> Any:
    loop = IOLoop(make_current=False)
    try:
        return loop.run_sync(lambda: body)
    finally:
        loop.close(all_fds=True)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run, on_tornado])
def test_a_pool_works_on_the_loops_of_asyncio_uvloop_and_tornado(run: Any) -> None:
    async def body() -> list[int]:
        async with PipePool(2) as pool:
            return await asyncio.gather(*(pool.run(calls.add, n, n) for n in range(200)))

    assert run(body()) == list(range(0, 400, 2))


def test_tasks_run_in_other_processes_in_parallel() -> None:
    async def test(pool: PipePool) -> None:
        pids = await asyncio.gather(*(pool.run(calls.sleep, 0.2) for _ in range(2)))
        assert sorted(pids) == sorted(pool.stats().pids)
        assert os.getpid() not in pids

    in_pool(test)


def test_results_are_returned_in_the_order_in_which_tasks_end() -> None:
    async def test(pool: PipePool) -> None:
        slow = asyncio.ensure_future(pool.run(calls.sleep, 0.5))
        await pool.run(calls.sleep, 0.0)
        assert not slow.done()
        await slow

    in_pool(test)


def test_two_tasks_never_share_an_argument() -> None:
    async def test(pool: PipePool) -> None:
        shared: list[int] = []
        assert await asyncio.gather(*(pool.run(calls.grow, shared) for _ in range(50))) == [1] * 50

    in_pool(test, 1)


@pytest.mark.parametrize(
    "size", [0, 1, 100, 32 << 10, 100_000, 1 << 20, pytest.param(70 << 20, marks=pytest.mark.slow)]
)
def test_bytes_of_any_size_are_sent_and_returned(size: int) -> None:
    async def test(pool: PipePool) -> None:
        sent = os.urandom(size)
        for _ in range(
            1 if size > 64 << 20 else 2
        ):  # one that exceeds the shared memory frees none of it
            assert await pool.run(calls.same, sent) == sent
        assert await pool.run(calls.length, bytearray(sent)) == ("bytearray", size)
        assert await pool.run(calls.length, sent) == ("bytes", size)

    in_pool(test, 1)


def test_a_large_buffer_arrives_as_a_writable_copy() -> None:
    async def test(pool: PipePool) -> None:
        mine = bytearray(100_000)
        theirs = await pool.run(calls.fill, mine)
        assert (bytes(theirs[:3]), bytes(mine[:3]), type(theirs)) == (b"abc", b"\0\0\0", bytearray)
        theirs[:1] = b"x"

    in_pool(test, 1)


def test_large_results_are_correct_when_the_shared_memory_is_full() -> None:
    async def test(pool: PipePool) -> None:
        results = await asyncio.gather(*(pool.run(calls.data, 10 << 20) for _ in range(20)))
        assert {len(result) for result in results} == {10 << 20}

    in_pool(test)


def test_zero_copy_results_are_views_that_are_valid_until_they_are_released() -> None:
    async def test(pool: PipePool) -> None:
        views = [await pool.run(calls.data, 5 << 20, zero_copy_result=True) for _ in range(20)]
        assert all(isinstance(view, memoryview) and view.readonly for view in views)
        assert {bytes(view[:3]) for view in views} == {b"xxx"}
        with views.pop() as view:
            assert len(view) == 5 << 20
        views.clear()
        for _ in range(100):  # they fit only if those before were freed
            with await pool.run(calls.data, 5 << 20, zero_copy_result=True) as view:
                assert view[-1] == ord("x")

    in_pool(test, 1)


def test_a_zero_copy_result_outlives_its_worker_and_its_pool() -> None:
    kept: list[Any] = []

    async def test(pool: PipePool) -> None:
        kept.append(await pool.run(calls.data, 1 << 20, zero_copy_result=True))

    in_pool(test, 1)
    assert bytes(kept.pop()) == b"x" * (1 << 20)


def test_zero_copy_args_are_views_that_are_freed_after_the_task() -> None:
    async def test(pool: PipePool) -> None:
        large = bytes(5 << 20)
        for number in range(50):  # they fit only if those before were freed
            sent = large + b"%03d" % number
            assert await pool.run(calls.look, sent, zero_copy_args=True) == (
                "memoryview",
                True,
                sent[-3:],
            )
        assert await pool.run(calls.length, b"small", zero_copy_args=True) == ("bytes", 5)
        with pytest.raises(TypeError, match="read-only"):
            await pool.run(calls.fill, pickle.PickleBuffer(bytearray(100_000)), zero_copy_args=True)
        assert await pool.run(calls.length, large, zero_copy_args=False) == ("bytes", 5 << 20)

    in_pool(test, 1)


def test_large_bytes_are_passed_in_the_same_way_as_keyword_arguments() -> None:
    async def test(pool: PipePool) -> None:
        large = b"x" * (1 << 20)
        for size in (10, 1 << 20):
            data = b"x" * size
            kwargs = {"value": data, "other": 3, "also": large}
            kinds = await pool.run(calls.kinds, data, 5, kwargs=kwargs)
            assert kinds == (["bytes", "int"], {"value": "bytes", "other": "int", "also": "bytes"})
        kwargs = {"value": large, "other": 3}
        kinds = await pool.run(calls.kinds, large, 5, kwargs=kwargs, zero_copy_args=True)
        assert kinds == (["memoryview", "int"], {"value": "memoryview", "other": "int"})
        view = await pool.run(calls.look, kwargs={"value": large}, zero_copy_args=True)
        assert view == ("memoryview", True, b"xxx")
        assert pool._scheduler is not None
        [connection] = pool._scheduler.manager.open
        assert not any(bytes(connection._encoder._arena._states))  # all blocks are free again

    in_pool(test, 1)


def test_a_zero_copy_argument_that_a_worker_keeps_does_not_change() -> None:
    async def test(pool: PipePool) -> None:
        sent = [bytes(20 << 20) + b"%03d" % number for number in range(5)]  # more than there is
        for each in sent:
            await pool.run(calls.look, each, True, zero_copy_args=True)
        for _ in range(3):
            assert await pool.run(calls.length, bytes(30 << 20)) == ("bytes", 30 << 20)
        assert await pool.run(calls.look_again) == [each[-3:] for each in sent]

    in_pool(test, 1)


def test_named_context_variables_are_sent_with_a_task_and_reset_after_it() -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.read_variable) == "unset"
        calls.variable.set("mine")
        assert await pool.run(calls.read_variable) == "mine"
        await pool.run(calls.set_variable)
        assert await pool.run(calls.read_variable) == "mine"

    in_pool(test, 1, context=["pool_tests.calls:variable"])


def test_every_worker_runs_the_initializer_once() -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.get_initializer_args) == [("word",)]
        assert pool.initializer_results() == [1, 1]

    in_pool(test, initializer=calls.initialize, initargs=(("word",),))


def test_a_full_queue_raises_at_once() -> None:
    async def test(pool: PipePool) -> None:
        tasks = [asyncio.ensure_future(pool.run(calls.sleep, 0.3)) for _ in range(3)]
        await wait_for(lambda: pool.stats().queued == 2)
        with pytest.raises(QueueFull, match="2 tasks wait"):
            await pool.run(calls.sleep, 0.3)
        await asyncio.gather(*tasks)
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1, max_queue=2)


def test_max_queue_0_accepts_a_task_only_if_a_worker_is_idle() -> None:
    async def test(pool: PipePool) -> None:
        running = asyncio.ensure_future(pool.run(calls.sleep, 0.2))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await pool.run(calls.sleep, 0.2)
        await running
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1, max_queue=0)


def test_a_callable_with_a_state_is_sent_as_it_is_now() -> None:
    async def test(pool: PipePool) -> None:
        mine = [1]
        assert await pool.run(mine.copy) == [1]
        mine.append(2)
        assert await pool.run(mine.copy) == [1, 2]

    in_pool(test, 1)


def test_close_waits_for_submitted_tasks() -> None:
    async def body() -> None:
        pool = PipePool(1)
        await pool.start()
        tasks = [asyncio.ensure_future(pool.run(calls.sleep, 0.1)) for _ in range(3)]
        await asyncio.sleep(0)
        await pool.close()
        assert len(await asyncio.gather(*tasks)) == 3
        with pytest.raises(RuntimeError, match="between start"):
            await pool.run(calls.pid)

    asyncio.run(asyncio.wait_for(body(), LIMIT))


def test_the_counts_and_times_of_stats_add_up() -> None:
    async def test(pool: PipePool) -> None:
        await asyncio.gather(*(pool.run(calls.sleep, 0.02) for _ in range(10)))
        stats = pool.stats()
        assert (stats.done, stats.failed, stats.queued, stats.running) == (10, 0, 0, 0)
        assert 0.2 <= stats.run_s < 2
        assert stats.queue_s > 0 and stats.transport_s > 0 and (stats.memory or 0) > 1 << 20

    in_pool(test)


def test_the_stdout_of_a_task_is_that_of_the_application() -> None:
    program = (
        "import asyncio\nfrom pipepool import PipePool\nfrom pool_tests import calls\n"
        "async def main():\n  async with PipePool(1) as pool:\n"
        "    await pool.run(calls.print_twice, 'hello')\n"
        "if __name__ == '__main__': asyncio.run(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=LIMIT, env=ENVIRONMENT
    )
    assert (done.stdout, done.stderr) == (b"hello\nhello\n", b"")


@pytest.mark.parametrize("workers", [0, -1])
def test_max_workers_below_1_is_an_error(workers: int) -> None:
    with pytest.raises(ValueError, match="max_workers must be greater than 0"):
        PipePool(workers)


def test_a_name_that_is_no_context_variable_is_an_error() -> None:
    with pytest.raises(ValueError, match="context="):
        PipePool(1, context=["os:path"])


def test_many_tasks_leave_descriptors_and_memory_as_they_were() -> None:
    async def test(pool: PipePool) -> None:
        async def some(count: int) -> int:
            await asyncio.gather(*(client(count // 64) for _ in range(64)))
            return pool.stats().memory or 0

        async def client(count: int) -> None:
            for number in range(count):
                assert await pool.run(calls.same, number) == number
                if number % 100 == 0:
                    await pool.run(calls.data, 100_000)

        before, files = await some(3000), len(list(Path("/proc/self/fd").iterdir()))
        assert await some(15_000) < before + (3 << 20)
        assert len(list(Path("/proc/self/fd").iterdir())) == files

    in_pool(test)


@pytest.mark.parametrize("name", ["timeout", "queue_timeout"])
@pytest.mark.parametrize("seconds", ["5", float("nan"), timedelta(seconds=1)])
def test_a_timeout_that_is_no_number_is_an_error_and_harms_no_other_task(
    name: str, seconds: Any
) -> None:
    async def test(pool: PipePool) -> None:
        with pytest.raises(TypeError, match=f"{name} must be a number of seconds or None, not "):
            await pool.run(calls.add, 1, 2, **{name: seconds})
        stats = pool.stats()
        assert (stats.queued, stats.running, stats.done) == (0, 0, 0)
        assert await pool.run(calls.add, 1, 2, **{name: 5}) == 3

    in_pool(test)


def test_a_pool_raises_on_a_loop_that_it_was_not_started_on() -> None:
    pool = PipePool(1)
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    first.run_until_complete(pool.start())
    for call in (pool.start, partial(pool.run, calls.add, 1, 2), pool.close):
        with pytest.raises(RuntimeError, match="belongs to the loop that it was started on"):
            second.run_until_complete(call())
    assert first.run_until_complete(pool.run(calls.add, 1, 2)) == 3
    assert pool.stats().done == 1
    first.run_until_complete(pool.close())
    first.close()
    second.close()


def test_max_workers_must_be_an_integer() -> None:
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        PipePool(2.5)  # type: ignore[arg-type]
