"""The rest of the API beside `run`: map, streams, metrics, logging, start and end."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from pipepool import BrokenWorker, PipeExecutor, PipePool, QueueFull, TaskMetrics
from pool_tests import calls
from pool_tests.helpers import LIMIT, in_pool, wait_for, wait_until

pytestmark = pytest.mark.server  # starts worker processes


POSITIONAL = {
    PipePool: ["max_workers", "initializer", "initargs"],
    PipeExecutor: ["max_workers", "mp_context", "initializer", "initargs"],  # the standard order
}
KEYWORDS = [
    "preload",
    "max_tasks_per_child",
    "max_queue",
    "context",
    "finalizer",
    "start_timeout",
    "busy_wait",
    "shared_memory",
    "metrics",
]


@pytest.mark.parametrize("pool", POSITIONAL)
def test_the_signature_names_every_parameter_with_its_default(pool: Any) -> None:
    parameters = inspect.signature(pool).parameters.values()
    assert [each.name for each in parameters] == POSITIONAL[pool] + KEYWORDS
    keywords = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    assert keywords == KEYWORDS
    assert all(each.default is not each.empty for each in parameters)
    with pytest.raises(TypeError, match="max_worker'"):
        pool(max_worker=1)


def test_kwargs_are_keyword_arguments_of_the_function_not_of_the_pool() -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.add, 1, kwargs={"b": 2}, timeout=5) == 3
        assert await pool.run(dict, kwargs={"timeout": 1, "kwargs": 2}) == {
            "timeout": 1,
            "kwargs": 2,
        }

    in_pool(test, 1)


def test_map_yields_in_order_and_submits_no_more_than_its_limit_ahead() -> None:
    taken: list[int] = []

    def numbers() -> Any:
        for number in range(40):
            taken.append(number)
            yield number

    async def test(pool: PipePool) -> None:
        found = []
        async for result in pool.map(calls.add, numbers(), range(40), limit=5):
            found.append(result)
            assert len(taken) <= len(found) + 5
        assert found == [2 * n for n in range(40)]
        assert [r async for r in pool.map(calls.add, [])] == []

    in_pool(test)


def test_map_raises_in_place_of_a_result_and_cancels_the_rest(tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    async def test(pool: PipePool) -> None:
        results = pool.map(divmod, [1] * 100, [1, 1, 0] + [1] * 97, limit=100)
        assert [await anext(results), await anext(results)] == [(1, 0), (1, 0)]
        with pytest.raises(ZeroDivisionError):
            await anext(results)
        slow = pool.map(calls.note, [str(ran)] * 50, "a" * 50, [0.05] * 50, limit=50)
        async with contextlib.aclosing(slow):
            await anext(slow)
        await wait_for(lambda: pool.stats().running == pool.stats().queued == 0)
        assert len(ran.read_text().split()) < 10

    in_pool(test)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_1_is_an_error(limit: int) -> None:
    async def test(pool: PipePool) -> None:
        for results in (pool.map, pool.as_completed):
            with pytest.raises(ValueError, match="limit must be at least 1"):
                await anext(results(calls.add, [1], limit=limit))
        with pytest.raises(ValueError, match="limit must be at least 1"):
            await anext(pool.stream(calls.count, 3, limit=limit))

    in_pool(test, 1)


def test_as_completed_yields_in_the_order_of_completion() -> None:
    async def test(pool: PipePool) -> None:
        found = [r async for r in pool.as_completed(calls.sleep_for, [0.6, 0.0, 0.1], limit=3)]
        assert found == [0.0, 0.1, 0.6]

    in_pool(test, 2)


def test_a_stream_yields_the_items_of_a_generator_while_it_runs() -> None:
    async def test(pool: PipePool) -> None:
        began = time.monotonic()
        stream = pool.stream(calls.count, 3, kwargs={"seconds": 0.5})
        assert await anext(stream) == 0
        assert time.monotonic() - began < 1.2  # of at least 1.5 s for all
        assert [item async for item in stream] == [1, 2]
        assert [item async for item in pool.stream(calls.count, 500)] == [*range(500)]
        assert [item async for item in pool.stream(range, 5)] == [*range(5)]
        large = [item async for item in pool.stream(calls.large_items, 20, 1 << 20)]
        assert [item[:1] for item in large] == [bytes([n]) for n in range(20)]
        assert (pool.stats().running, pool.stats().failed) == (0, 0)

    in_pool(test, 1)


def test_a_stream_is_never_further_ahead_of_its_consumer_than_its_limit(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        ran = tmp_path / "ran"
        stream = pool.stream(calls.noted_items, str(ran), 100, limit=4)
        for number in range(30):
            assert await anext(stream) == number
            if number % 10 == 0:
                await asyncio.sleep(0.05)
                assert len(ran.read_text().split()) <= number + 1 + 4
        await stream.aclose()  # type: ignore[attr-defined]
        assert await pool.run(calls.add, 1) == 1  # the generator has ended, the worker is free
        assert ran.read_text().split()[-1] == "closed"

    in_pool(test, 1)


def test_an_unread_stream_and_an_abandoned_stream_end() -> None:
    async def test(pool: PipePool) -> None:
        for _ in range(3):
            async with contextlib.aclosing(pool.stream(calls.count, 10**9)) as stream:
                assert await anext(stream) == 0
        unread = pool.stream(calls.count, 10**9)
        await unread.aclose()  # type: ignore[attr-defined]
        async with asyncio.timeout(5):
            assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)


def test_an_exception_or_the_death_of_the_worker_ends_a_stream() -> None:
    async def test(pool: PipePool) -> None:
        found = []
        with pytest.raises(ValueError, match="after two"):
            async for item in pool.stream(calls.two_items_then, "raise"):
                found.append(item)
        with pytest.raises(BrokenWorker):
            async for item in pool.stream(calls.two_items_then, "exit"):
                found.append(item)
        assert found == [0, 1, 0, 1]
        with pytest.raises(TypeError):
            await anext(pool.stream(calls.add, 1))  # an int is no iterable
        with pytest.raises(TimeoutError):
            [
                item
                async for item in pool.stream(
                    calls.count, 100, kwargs={"seconds": 0.1}, timeout=0.3
                )
            ]
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)


def test_other_tasks_are_run_while_a_stream_waits_for_its_consumer() -> None:
    async def test(pool: PipePool) -> None:
        stream = pool.stream(calls.count, 100, limit=1)
        assert await anext(stream) == 0
        async with asyncio.timeout(5):
            assert await asyncio.gather(*(pool.run(calls.add, n) for n in range(20))) == [
                *range(20)
            ]
        assert [item async for item in stream] == [*range(1, 100)]

    in_pool(test, 2)


def test_every_zero_copy_result_of_bytes_is_a_view() -> None:
    async def test(pool: PipePool) -> None:
        for size in (0, 1, 1000, 1 << 20):
            view = await pool.run(calls.data, size, zero_copy_result=True)
            assert (type(view), view.readonly, len(view)) == (memoryview, True, size)
            assert await pool.run(calls.data, size) == b"x" * size

    in_pool(test, 1)


def test_metrics_are_passed_at_the_end_of_each_task(caplog: pytest.LogCaptureFixture) -> None:
    found: list[TaskMetrics] = []

    def fail(_: object) -> None:
        raise OSError("a collector that is down")

    async def test(pool: PipePool) -> None:
        await pool.run(calls.sleep, 0.1)
        with pytest.raises(ValueError, match="wrong"):
            await pool.run(calls.fail, "error")
        task = asyncio.ensure_future(pool.run(calls.sleep, 0.2))
        await asyncio.sleep(0.05)
        task.cancel()
        await wait_for(lambda: len(found) == 3)

    in_pool(test, 1, metrics=found.append)
    assert [(m.function, m.outcome) for m in found] == [
        ("sleep", "done"), ("fail", "failed"), ("sleep", "cancelled")
    ]  # fmt: skip
    assert 0.1 <= (found[0].run_s or 0) < 5
    assert all(0 <= (m.queue_s if m.queue_s is not None else -1) < 5 for m in found)

    async def test_again(pool: PipePool) -> None:
        assert await pool.run(calls.add, 1) == 1

    in_pool(test_again, 1, metrics=fail)
    assert "the metrics callback raised" in caplog.text
    caplog.clear()  # its traceback refers to the pool


@pytest.mark.parametrize("kind", ["none", "error", "crash", "queued"])
def test_a_cancelled_task_is_counted_as_cancelled_however_it_ends(kind: str) -> None:
    async def test(pool: PipePool) -> None:
        running = asyncio.ensure_future(
            pool.run(calls.exit_after if kind == "crash" else calls.fail_after, kind, 0.2)
        )
        await wait_for(lambda: pool.stats().running == 1)
        behind = asyncio.ensure_future(pool.run(calls.add, 1))
        await wait_for(lambda: pool.stats().queued == 1)
        cancelled = behind if kind == "queued" else running
        cancelled.cancel()
        await asyncio.wait([running, behind])
        await pool.run(calls.add, 2)
        stats = pool.stats()
        assert (stats.done, stats.failed, stats.crashed, stats.cancelled) == (2, 0, 0, 1)

    in_pool(test, 1)


class HookError(BaseException):
    """What a hook may raise, such as pytest.fail or a cancellation."""


@pytest.mark.parametrize("error", [HookError, asyncio.CancelledError, SystemExit])
def test_an_exception_of_the_metrics_callback_changes_no_task(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise error

    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        with pytest.raises(TimeoutError):
            await pool.run(calls.sleep, 30, timeout=0.1)
        assert await pool.run(calls.pid) != pid
        assert pool.stats().killed == 1

    in_pool(test, 1, metrics=fail)
    with PipeExecutor(1, metrics=fail) as executor:
        running = executor.submit(calls.sleep, 0.2)
        futures = [executor.submit_with(calls.same, lambda: 0)]
        futures += [executor.submit_with(calls.same, n) for n in range(20)]
        assert futures[0].exception(LIMIT) is not None
        assert [each.result(LIMIT) for each in futures[1:]] == [*range(20)]
        assert running.result(LIMIT)
    caplog.clear()  # tracebacks in it refer to the pool


def test_a_task_that_runs_too_long_is_killed_although_ctrl_c_interrupts_the_metrics_callback() -> (
    None
):
    async def test(pool: PipePool) -> None:
        scheduler = pool._scheduler
        assert scheduler is not None
        running = asyncio.ensure_future(pool.run(calls.sleep, 30))
        [connection] = scheduler.manager.open
        await wait_for(connection.running)
        [task] = connection.tasks.values()

        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        scheduler.accounting.observer = interrupt
        scheduler.accounting._has_end_hooks = True
        with pytest.raises(KeyboardInterrupt):
            scheduler._fail_and_stop(task, TimeoutError("too long"))
        scheduler.accounting.observer = None
        with pytest.raises(TimeoutError, match="too long"):
            await running
        await wait_for(lambda: pool.stats().restarts == 1)

    in_pool(test, 1)


def test_a_worker_that_dies_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(pool: PipePool) -> None:
        with pytest.raises(BrokenWorker):
            await pool.run(calls.exit_process, 7)
        with pytest.raises(TimeoutError):
            await pool.run(calls.sleep, 9, timeout=0.05)  # which the pool kills itself
        assert await pool.run(calls.add, 1) == 1

    with caplog.at_level(logging.WARNING, "pipepool"):
        in_pool(test, 1)
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith("worker ") and message.endswith(" ended with status 7")


def test_a_slow_start_fails_after_its_timeout() -> None:
    async def body() -> None:
        pool = PipePool(1, time.sleep, (60,), start_timeout=0.2)
        with pytest.raises(BrokenWorker, match="not ready within start_timeout") as caught:
            await pool.start()
        assert isinstance(caught.value.__cause__, TimeoutError)

    asyncio.run(asyncio.wait_for(body(), LIMIT))
    with PipeExecutor(1, None, time.sleep, (60,), start_timeout=0.2) as executor:
        future = executor.submit(calls.add, 1)
        assert "start_timeout" in str(future.exception(LIMIT))


def test_a_finalizer_runs_in_each_worker_that_ends(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "ended"
    monkeypatch.setenv("FINALIZED", str(path))

    async def test(pool: PipePool) -> None:
        await asyncio.gather(*(pool.run(calls.add, n) for n in range(10)))

    in_pool(test, 2, finalizer=calls.finalize)
    assert len({*path.read_text().split()}) == 2


def test_the_size_of_the_shared_memory_can_be_set() -> None:
    async def test(pool: PipePool) -> None:
        for size in (1 << 10, 100_000, 1 << 20):  # the last does not fit
            assert await pool.run(calls.length, bytes(size)) == ("bytes", size)
            assert len(await pool.run(calls.data, size)) == size
            assert len(await pool.run(calls.data, size, zero_copy_result=True)) == size

    in_pool(test, 1, shared_memory=200_000)


@pytest.mark.parametrize("pool_class", [PipePool, PipeExecutor])
@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"max_workers": 0}, ValueError, "max_workers must be greater than 0"),
        ({"max_workers": 2.5}, TypeError, "'float' object cannot be interpreted as an integer"),
        ({"max_workers": "4"}, TypeError, "'str' object cannot be interpreted as an integer"),
        ({"initializer": 3}, TypeError, "initializer must be a callable"),
        ({"initializer": lambda: None}, TypeError, "initializer, initargs or finalizer cannot be"),
        ({"initializer": len, "initargs": (lambda: 0,)}, TypeError, "cannot be pickled"),
        ({"finalizer": lambda: None}, TypeError, "cannot be pickled"),
        ({"start_timeout": "1s"}, TypeError, "start_timeout must be a number of seconds"),
        ({"start_timeout": float("nan")}, TypeError, "start_timeout must be a number of seconds"),
        ({"preload": "shop"}, TypeError, "must be lists of names"),
        ({"max_queue": -1}, ValueError, "max_queue must be at least 0"),
        ({"shared_memory": 0}, ValueError, "shared_memory must be 4096 to"),
        ({"shared_memory": 1 << 62}, ValueError, "shared_memory must be 4096 to"),
        ({"metrics": 5}, TypeError, "metrics must be a callable"),
    ],
)
def test_wrong_parameters_raise_at_the_call(
    pool_class: type[Any], settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        pool_class(**settings)


def test_an_executor_accepts_the_options_of_a_pool() -> None:
    with PipeExecutor(1, preload=["pool_tests.calls"], max_queue=2) as executor:
        assert executor.submit_with(calls.add, 1, kwargs={"b": 2}).result(LIMIT) == 3
        with pytest.raises(TimeoutError, match="the task ran longer"):
            executor.submit_with(calls.sleep, 9, timeout=0.1).result(LIMIT)
        view = executor.submit_with(calls.data, 1 << 20, zero_copy_result=True).result(LIMIT)
        assert type(view) is memoryview
        view.release()
        with pytest.raises(TypeError, match="timeout must be a number"):
            executor.submit_with(calls.add, 1, timeout="1s")  # type: ignore[arg-type]
        slow = [executor.submit(calls.sleep, 0.3) for _ in range(6)]
        refused = [f for f in slow if isinstance(f.exception(LIMIT), QueueFull)]
        assert len(refused) == 3


def test_an_executor_sends_context_variables() -> None:
    token = calls.variable.set("mine")
    try:
        with PipeExecutor(1, context=["pool_tests.calls:variable"]) as executor:
            assert executor.submit(calls.read_variable).result(LIMIT) == "mine"
    finally:
        calls.variable.reset(token)


@pytest.mark.parametrize("chunksize", [1, 3])
def test_map_of_an_executor_takes_no_more_items_than_its_buffer(chunksize: int) -> None:
    taken: list[int] = []

    def numbers() -> Any:
        for number in range(60):
            taken.append(number)
            yield number

    with PipeExecutor(2) as executor:
        results = executor.map(calls.add, numbers(), chunksize=chunksize, buffersize=4)
        assert len(taken) == 4 * chunksize
        for seen, result in enumerate(results):
            assert result == seen
            assert len(taken) <= seen + 1 + 5 * chunksize
        for wrong, error in ((0, ValueError), (1.5, TypeError)):
            with pytest.raises(error, match="buffersize"):
                executor.map(calls.add, [1], buffersize=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["kill_workers", "terminate_workers"])
def test_the_workers_of_an_executor_can_be_killed(name: str) -> None:
    executor = PipeExecutor(2)
    pids = [executor.submit(os.getpid).result(LIMIT) for _ in range(2)]
    slow = [executor.submit(time.sleep, 60) for _ in range(5)]
    assert wait_until(lambda: sum(future.running() for future in slow) == 2)
    getattr(executor, name)()
    ended = [
        future.cancelled() or isinstance(future.exception(LIMIT), BrokenWorker) for future in slow
    ]
    assert all(ended)
    executor.shutdown()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(calls.add, 1)
