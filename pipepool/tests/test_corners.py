"""Corners that a hostile review found: each test failed before its fault was removed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import pickle
import signal
import sys
import time
from fractions import Fraction
from multiprocessing import get_context, resource_sharer
from pathlib import Path
from typing import Any

import pytest

from pipepool import BrokenWorker, PipeExecutor, PipePool, QueueFull
from pipepool.workers import shared_memory
from pipepool.workers.protocol import Decoder, Encoder
from pipepool.workers.worker_connection import DEFAULTS
from pool_tests import calls
from pool_tests.helpers import LIMIT, assume_short, in_pool, is_alive, wait_for, wait_until

pytestmark = pytest.mark.server  # starts worker processes


def test_results_are_not_held_while_a_task_runs_longer_than_expected() -> None:
    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.sleep_for)
        short = [asyncio.ensure_future(pool.run(calls.sleep_for, 0.0)) for _ in range(4)]
        long = asyncio.ensure_future(pool.run(calls.sleep_for, 2.0, timeout=0.5))
        await asyncio.wait(short, timeout=1.5)
        assert [task.done() for task in short] == [True] * 4
        assert not long.done() or isinstance(long.exception(), TimeoutError)
        assert await asyncio.gather(*short) == [0.0] * 4  # none is lost with the worker
        with pytest.raises(TimeoutError):
            await long

    in_pool(test, 1)


@pytest.mark.parametrize("what", ["module", "argument", "result", "exception"])
def test_results_are_not_held_while_a_value_is_loaded_or_pickled(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "is_slow"
    code = f"import pathlib, time\nif pathlib.Path({str(flag)!r}).exists(): time.sleep(10)\n"
    (tmp_path / "slow_module.py").write_text(code + "def function(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    slow: dict[str, tuple[Any, ...]] = {
        "module": (importlib.import_module("slow_module").function,),
        "argument": (calls.same, calls.Slow(to_load=10)),
        "result": (calls.slow_to_pickle, 10),
        "exception": (calls.fail_slowly, True),
    }
    flag.touch()  # from now on the import is slow

    async def test(pool: PipePool) -> None:
        for _ in range(100):  # the first runs may be slow: after them, results are sent at once
            await pool.run(calls.same, 1)
            await pool.run(calls.slow_to_pickle, 0)
            await pool.run(calls.fail_slowly, False)
        assume_short(pool._scheduler, calls.same, slow[what][0])
        short = [asyncio.ensure_future(pool.run(calls.same, n)) for n in range(4)]
        long = asyncio.ensure_future(pool.run(*slow[what], timeout=0.5))
        assert await asyncio.gather(*short) == [*range(4)]  # none is lost with the worker
        with pytest.raises(TimeoutError):
            await long

    in_pool(test, 1)


def test_results_are_not_held_while_a_task_waits_in_a_system_call(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def test(pool: PipePool) -> None:
        for _ in range(100):  # the first runs may be slow: after them, results are sent at once
            await pool.run(calls.add, 1)
        assume_short(pool._scheduler, calls.add, calls.read_file)
        short = [asyncio.ensure_future(pool.run(calls.add, n)) for n in range(4)]
        waiting = asyncio.ensure_future(pool.run(calls.read_file, str(fifo)))
        await wait_for(lambda: all(each.done() for each in short))
        fifo.write_bytes(b"now")
        assert await waiting == b"now"

    in_pool(test, 1)


@pytest.mark.parametrize("streams", [1, 2, 3])
def test_streams_that_are_left_before_they_start_free_their_worker(streams: int) -> None:
    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.count)
        for _ in range(20):
            items = [pool.stream(calls.count, 10**9, limit=2) for _ in range(streams)]
            tasks = [asyncio.ensure_future(anext(each)) for each in items]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            async with asyncio.timeout(5):
                assert await pool.run(abs, -1) == 1

    in_pool(test, 1)


def test_sys_exit_in_callbacks_leaves_no_future_pending(caplog: pytest.LogCaptureFixture) -> None:
    with PipeExecutor(1, metrics=lambda _: sys.exit(2)) as executor:
        slow = executor.submit(calls.sleep, 0.3)
        wrong = executor.submit(lambda: None)
        wrong.add_done_callback(lambda _: sys.exit(3))
        behind = executor.submit(calls.add, 1)
        behind.add_done_callback(lambda _: sys.exit(4))
        assert slow.result(LIMIT) > 0
        assert wrong.exception(LIMIT) is not None
        assert behind.result(LIMIT) == 1
        last = [executor.submit(calls.sleep, 0.1) for _ in range(20)]
        last[-1].add_done_callback(lambda _: sys.exit(5))
        executor.shutdown(cancel_futures=True)
        assert all(future.done() for future in last)
    caplog.clear()  # tracebacks in it refer to the pool


def test_the_number_of_dead_workers_that_are_kept_is_bounded() -> None:
    async def test(pool: PipePool) -> None:
        scheduler = pool._scheduler
        assert scheduler is not None
        for _ in range(3):
            await pool.run(calls.add, 1)
            os.kill(scheduler.manager._fork_server._process.pid, signal.SIGKILL)
            await asyncio.sleep(0.1)
            async with asyncio.timeout(10):
                await pool.run(calls.add, 1)
        await wait_for(lambda: len(scheduler.manager.connections) <= 3)

    in_pool(test, 1, max_tasks_per_child=2)


def test_a_result_of_the_initializer_that_cannot_be_loaded_is_none() -> None:
    async def test(pool: PipePool) -> None:
        assert pool.initializer_results() == [None]
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1, initializer=calls.initialize_unloadably)


def test_a_connection_of_multiprocessing_can_be_given_to_the_workers() -> None:
    ours, theirs = get_context("spawn").Pipe()
    with ours, theirs, PipeExecutor(1, None, calls.initialize, (theirs,)) as executor:
        executor.submit(calls.send_back, "here").result(LIMIT)
        assert ours.poll(10)
        assert ours.recv() == "here"
    resource_sharer.stop(10)  # multiprocessing's own, which keeps a socket


def test_a_connection_of_multiprocessing_can_be_an_argument_and_a_result() -> None:
    ours, theirs = get_context("spawn").Pipe()
    with ours, theirs, PipeExecutor(1) as executor:
        executor.submit(calls.send_through, theirs, "here").result(LIMIT)
        assert ours.poll(10)
        assert ours.recv() == "here"
        with executor.submit(calls.same, theirs).result(LIMIT) as copy:
            assert copy.fileno() != theirs.fileno()
            copy.send("and back")
        assert ours.recv() == "and back"
    resource_sharer.stop(10)


def test_a_pool_starts_with_the_workers_that_can(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        assert len(pool.stats().pids) == 1
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 2, initializer=calls.initialize_one, initargs=(str(tmp_path / "one"),))


def test_damaged_data_from_a_worker_fails_its_task_alone() -> None:
    async def test(pool: PipePool) -> None:
        with pytest.raises(BrokenWorker, match="damaged data"):
            await pool.run(calls.send_garbage)
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)


def test_a_child_that_a_task_forked_answers_nobody() -> None:
    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        for _ in range(3):
            assert await pool.run(calls.fork_and_return) == pid
        assert await asyncio.gather(*(pool.run(calls.add, n) for n in range(50))) == [*range(50)]

    in_pool(test, 1)


@pytest.mark.parametrize(
    ("how", "code", "output"),
    [
        ("return", 0, "printed\n"),
        ("exit", 3, "printed\n"),
        ("exit with text", 1, "printed\nthe end\n"),
        ("raise", 1, 'ValueError: "of the child"\n'),
    ],
)
def test_a_child_that_a_task_forked_ends_as_a_process_does(
    how: str, code: int, output: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.fork_and_end, how) == code
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)
    out, err = capfd.readouterr()
    assert (out + err).endswith(output)
    assert (out + err).count("Traceback") == (how == "raise")
    assert "worker.py" not in err


def test_a_child_that_a_closed_stream_forked_is_no_worker() -> None:
    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        async with contextlib.aclosing(pool.stream(calls.count_and_fork, limit=2)) as items:
            assert await anext(items) == 0
        assert [await pool.run(calls.pid) for _ in range(20)] == [pid] * 20

    in_pool(test, 1)


def test_a_child_that_the_pickling_of_a_result_forked_is_no_worker() -> None:
    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        assert await pool.run(calls.forks_when_pickled) == 0
        assert [await pool.run(calls.pid) for _ in range(20)] == [pid] * 20

    in_pool(test, 1)


def test_a_child_that_an_initializer_forked_is_no_worker() -> None:
    async def test(pool: PipePool) -> None:
        assert pool.initializer_results() == [*pool.stats().pids]
        assert await asyncio.gather(*(pool.run(calls.add, n) for n in range(50))) == [*range(50)]

    in_pool(test, 1, initializer=calls.fork_and_return)


def test_large_results_of_a_task_that_forks_do_not_use_up_the_shared_memory() -> None:
    size = 64 << 10

    async def test(pool: PipePool) -> None:
        for n in range(100):
            data = await pool.run(calls.fork_and_return_data, n, size)
            assert data == n.to_bytes(4, "big") * (size // 4)

    in_pool(test, 1)


def test_a_worker_that_closed_its_socket_is_killed() -> None:
    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        with pytest.raises(BrokenWorker):
            await pool.run(calls.close_descriptors_and_sleep, 60)
        await wait_for(lambda: not is_alive(pid))
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)


def test_a_short_timeout_fails_no_task_that_has_ended() -> None:
    async def test(pool: PipePool) -> None:
        for _ in range(10):
            assume_short(pool._scheduler, calls.add, calls.sleep_for)
            short = [asyncio.ensure_future(pool.run(calls.add, n)) for n in range(4)]
            long = asyncio.ensure_future(pool.run(calls.sleep_for, 5.0, timeout=0.001))
            assert await asyncio.gather(*short) == [*range(4)]
            with pytest.raises(TimeoutError):
                await long

    in_pool(test, 1)


def test_a_run_after_a_cancelled_start_raises_that_the_pool_is_not_started() -> None:
    async def test() -> None:
        pool = PipePool(1, time.sleep, (60,))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.start(), 0.1)
        with pytest.raises(RuntimeError, match="start"):
            await pool.run(calls.add, 1)
        await pool.close()

    asyncio.run(asyncio.wait_for(test(), LIMIT))


@pytest.mark.parametrize("tasks", [1, 20])
def test_workers_that_are_killed_together_fail_no_task_that_had_not_started(tasks: int) -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        for _ in range(2):
            await asyncio.gather(*(pool.run(calls.sleep, 0.01) for _ in range(8)))
            await wait_for(lambda: len(pool.stats().pids) == 4)
            for connection in pool._scheduler.manager.open:
                assert connection.pid is not None
                os.kill(connection.pid, signal.SIGKILL)
            time.sleep(0.05)  # the loop notices nothing
            assert await asyncio.gather(*(pool.run(calls.add, n) for n in range(tasks))) == [
                *range(tasks)
            ]

    in_pool(test, 4)


def test_a_slow_transfer_is_no_timeout() -> None:
    size = 4 << 20

    async def test(pool: PipePool) -> None:
        for _ in range(2):
            result = asyncio.ensure_future(pool.run(calls.data, size, timeout=0.6))
            argument = asyncio.ensure_future(pool.run(calls.length, bytes(size), timeout=0.6))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            time.sleep(1.8)  # something blocks the loop
            assert len(await result) == size
            assert await argument == ("bytes", size)
        assert pool.stats().killed == 0

    in_pool(test, 2, shared_memory=4096)


@pytest.mark.parametrize("timeout", [-1, -1.5, float("-inf")])
def test_a_timeout_that_has_passed_kills_no_worker_that_runs_nothing(timeout: float) -> None:
    async def test(pool: PipePool) -> None:
        for _ in range(20):
            with contextlib.suppress(TimeoutError):
                await pool.run(calls.add, 1, timeout=timeout)
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)


def test_two_streams_that_are_left_together_both_end() -> None:
    async def consume(pool: PipePool) -> None:
        async with contextlib.aclosing(pool.stream(calls.slow_count, 0.02, limit=500)) as items:
            async for _ in items:
                pass

    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.slow_count)
        streams = [asyncio.ensure_future(consume(pool)) for _ in range(2)]
        await asyncio.sleep(0.004)  # before the second one is revoked
        for each in streams:
            each.cancel()
        await asyncio.wait(streams)
        async with asyncio.timeout(3):  # 500 items would take 10 s
            assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)


def test_cancelled_calls_of_an_executor_leave_its_queue() -> None:
    with PipeExecutor(1, max_queue=2) as executor:
        running = executor.submit(calls.sleep, 0.5)
        assert wait_until(running.running)
        waiting = [executor.submit(calls.add, n) for n in range(2)]
        assert wait_until(lambda: len(executor._engine._scheduler.queue) == 2)
        assert [each.cancel() for each in waiting] == [True, True]
        assert executor.submit(calls.add, 1).result(LIMIT) == 1


def test_an_executor_with_max_queue_0_accepts_one_call_for_each_worker_that_starts() -> None:
    with PipeExecutor(2, max_queue=0) as executor:
        tasks = [executor.submit(calls.sleep, 0.3) for _ in range(3)]
        errors = [type(each.exception(LIMIT)) for each in tasks]
        assert errors == [type(None), type(None), QueueFull]
        assert executor.submit(calls.add, 1).result(LIMIT) == 1


def test_a_failed_copy_frees_all_blocks_of_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    descriptor, memory = shared_memory.create(1 << 20)
    os.close(descriptor)
    arena = memory.arena(shared_memory.RESULTS)
    buffers = [pickle.PickleBuffer(bytearray(100_000)) for _ in range(3)]
    kind, payload = Encoder(arena).encode(buffers)
    assert sum(arena._states) == 3
    decoder, copied = Decoder(arena), [0]

    def view(offset: int, size: int) -> memoryview:
        copied[0] += 1
        if copied[0] == 2:
            raise MemoryError
        return memoryview(bytes(size))

    monkeypatch.setattr(arena, "view", view)
    with pytest.raises(MemoryError):
        decoder.decode(kind, payload, memoryview(b""))
    assert not any(arena._states)


def test_a_task_submitted_while_another_is_pickled_is_counted_once() -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        scheduler, loop = pool._scheduler, asyncio.get_running_loop()
        inner = loop.create_future()

        class Submits:
            def __reduce__(self) -> tuple[object, ...]:
                scheduler.submit(calls.add, (5,), {}, inner, DEFAULTS, at_once=True)
                return int, ()

        assert await pool.run(calls.add, Submits()) == 0
        assert await inner == 5
        assert (scheduler.running, pool.stats().queued) == (0, 0)

    in_pool(test, 1)


def test_a_huge_number_of_tasks_per_worker_is_no_limit() -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1, max_tasks_per_child=10**400)


def test_a_stopped_worker_costs_a_task_no_more_than_its_timeout() -> None:
    async def test(pool: PipePool) -> None:
        await pool.run(calls.add, 1)
        [pid] = pool.stats().pids
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="did not start"):
            await pool.run(calls.add, 1, timeout=0.3)
        assert time.monotonic() - began < 10
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)


def test_map_submits_no_more_than_the_queue_takes() -> None:
    async def test(pool: PipePool) -> None:
        assert [r async for r in pool.map(calls.same, range(100))] == [*range(100)]

    in_pool(test, 2, max_queue=1)


@pytest.mark.parametrize("name", ["timeout", "queue_timeout"])
def test_a_time_that_is_no_float_is_taken_or_refused_at_once(name: str) -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.add, 1, **{name: Fraction(5, 2)}) == 1
        with pytest.raises(TypeError, match="must be a number of seconds"):
            await pool.run(calls.add, 1, **{name: 10**400})
        assert pool.stats().queued == 0

    in_pool(test, 1)
