"""The parts of the scheduler: queue, estimates of run times, accounting, assignment."""

from __future__ import annotations

import asyncio
import functools
import math
import os
import pickle
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipepool import BrokenWorker, PipeExecutor, PipePool, QueueFull
from pipepool.exceptions import RemoteError, RemoteTraceback
from pipepool.scheduling.accounting import START_GRACE, Accounting
from pipepool.scheduling.scheduler import BUDGET, Queue
from pipepool.workers import protocol
from pipepool.workers.protocol import load_exception
from pipepool.workers.worker_connection import DEFAULTS, Function, Functions, Options, Task
from pool_tests import calls
from pool_tests.helpers import LIMIT, examples, in_pool, wait_for, wait_until

STEP = st.sampled_from(["add", "put_back", "pop", "forget", "head"])


def task(future: Any = None, **options: Any) -> Task:
    return Task(Function(1, calls.add, b""), (), {}, future, Options(**options))


@examples(60)
@given(steps=st.lists(st.tuples(STEP, st.integers(0, 9)), max_size=30))
def test_a_queue_is_a_list_sorted_by_age_without_ended_tasks(steps: list[tuple[str, int]]) -> None:
    queue, model, taken = Queue(), list[Task](), list[Task]()
    for step, number in steps:
        if step == "add":
            model.append(task())
            queue.append(model[-1])
        elif step == "put_back":
            back, taken = taken[: number % 3], taken[number % 3 :]
            queue.put_back(back)
            model = sorted(model + back, key=lambda each: each.submitted)
        elif step == "forget" and model:
            gone = model.pop(number % len(model))
            queue.exclude(gone)
            gone.is_ended = True
            queue.exclude(gone)  # once more changes nothing
        elif step == "pop" and model:
            taken.append(model.pop(0))
            assert queue.head() is taken[-1]
            queue.pop()
        assert queue.head() is (model[0] if model else None)
        assert (len(queue), list(queue), bool(queue)) == (len(model), model, bool(model))


def test_an_ended_task_in_a_queue_keeps_no_argument_and_little_memory() -> None:
    queue = Queue()
    for _ in range(2):
        queue.append(task())
    for _ in range(1000):
        ended = Task(Function(0, calls.add, None), (1,), {"b": 2}, None, DEFAULTS)
        queue.append(ended)
        queue.exclude(ended)
        ended.is_ended = True
        assert (ended.args, ended.kwargs, ended.extra) == ((), {}, None)
        assert len(queue) == 2
    assert len(queue._tasks) <= 5
    assert [each.is_ended for each in queue] == [False] * 2


def test_an_estimate_rises_at_once_and_decays_by_a_tenth() -> None:
    function = Function(1, calls.add, b"")
    assert function.estimate is None
    for took, estimate in [(100, 100.0), (300, 300.0), (100, 280.0), (280, 280.0), (281, 281.0)]:
        function.add_runs(took)
        assert function.estimate == pytest.approx(estimate)


def test_an_estimate_decays_with_each_run_of_a_frame() -> None:
    one_by_one, together = (Function(1, calls.add, b"") for _ in range(2))
    for function in (one_by_one, together):
        function.add_runs(1000)
    for _ in range(30):
        one_by_one.add_runs(100)
    together.add_runs(100, 30)
    assert together.estimate == pytest.approx(one_by_one.estimate)


def test_functions_are_numbered_and_pickled_once_unless_they_have_a_state() -> None:
    known = Functions()
    assert [known.get(f).number for f in (calls.add, calls.same, calls.add, len)] == [1, 2, 1, 3]
    assert known.get(Function).number == 4
    assert pickle.loads(known.get(calls.same).code or b"") is calls.same
    for stateful in (functools.partial(calls.add, 1), "x".upper, calls.at_start.append):
        assert (known.get(stateful).number, known.get(stateful).code) == (0, None)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        known.get(lambda: 1)


def test_a_task_carries_its_callable_only_where_workers_do_not_keep_it() -> None:
    by_name, partial = Function(1, calls.add, b""), Function(0, calls.add, None)
    values = [(0, "value")]
    assert Task(by_name, (), {}, None, DEFAULTS).extra is None
    assert Task(by_name, (), {}, None, DEFAULTS, values).extra == (None, values, None)
    assert Task(partial, (), {}, None, DEFAULTS).extra == (calls.add, None, None)


@pytest.mark.parametrize("name", ["timeout", "queue_timeout"])
def test_a_timeout_that_is_no_number_raises_a_type_error_with_its_name(name: str) -> None:
    for right in (None, 0, 1.5, -1, math.inf):
        assert getattr(Options(**{name: right}), name) == right
    for wrong in ("1", math.nan, [], 1j):
        with pytest.raises(TypeError, match=f"^{name} must be a number of seconds"):
            Options(**{name: wrong})


def test_accounting_counts_every_end_once() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        accounting = Accounting(loop)
        done, failed, dropped, cancelled = (task(loop.create_future()) for _ in range(4))
        for each in (done, failed, dropped):
            each.timer = loop.call_later(60, print)
        accounting.submitted = 4
        waiting = asyncio.ensure_future(accounting.wait_until_empty(20))
        await asyncio.sleep(0)
        accounting.finish(done, 3)
        for _ in range(2):
            accounting.fail(failed, ValueError("a word"))
            accounting.drop(dropped)
        cancelled.future.cancel()
        assert (accounting.pending, waiting.done()) == (1, False)
        accounting.fail(cancelled, ValueError("nobody waits for it"))
        assert accounting.pending == 0
        assert (accounting.done, accounting.failed, accounting.cancelled) == (1, 1, 2)
        await asyncio.wait_for(waiting, 5)
        assert all(each.is_ended for each in (done, failed, dropped, cancelled))
        timers = [each.timer for each in (done, failed, dropped)]
        assert all(timer is not None and timer.cancelled() for timer in timers)
        assert done.future.result() == 3
        assert str(failed.future.exception()) == "a word"
        assert not dropped.future.done()

    asyncio.run(body())


def test_wait_until_empty_returns_when_empty_or_after_its_timeout() -> None:
    async def body() -> None:
        accounting = Accounting(asyncio.get_running_loop())
        await asyncio.wait_for(accounting.wait_until_empty(None), 5)
        other = Accounting(asyncio.get_running_loop())
        other.submitted = 1
        await asyncio.wait_for(other.wait_until_empty(0.01), 5)
        assert other.pending == 1

    asyncio.run(body())


def test_a_stop_iteration_of_a_task_becomes_a_runtime_error() -> None:
    async def body() -> None:
        accounting, one = Accounting(asyncio.get_running_loop()), task(asyncio.Future())
        accounting.fail(one, StopIteration(7))
        error = one.future.exception()
        assert isinstance(error, RuntimeError)
        assert isinstance(error.__cause__, StopIteration)
        assert "StopIteration(7)" in str(error)

    asyncio.run(body())


def test_an_exception_of_a_worker_has_its_traceback_there() -> None:
    error = load_exception((pickle.dumps(KeyError("a")), "lines there"))
    assert isinstance(error, KeyError)
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "lines there" in str(error.__cause__)
    odd = load_exception((b"no pickle", "lines there"))
    assert isinstance(odd, RemoteError)
    assert str(odd).endswith("while loading an exception:\nlines there")


def held_and_queued(workers: int, estimate: float | None, count: int) -> tuple[int, int]:
    """Submit tasks while the workers are stopped; return how many are held and how many queued."""
    found: list[tuple[int, int]] = []

    async def test(pool: PipePool) -> None:
        assert pool._scheduler
        pool._scheduler._functions.get(calls.add).estimate = estimate
        pids = pool.stats().pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            futures = [asyncio.ensure_future(pool.run(calls.add, n)) for n in range(count)]
            await wait_for(lambda: pool.stats().running + pool.stats().queued == count)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            found.append((pool.stats().running, pool.stats().queued))
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        assert await asyncio.gather(*futures) == list(range(count))

    in_pool(test, workers)
    return found[0]


@pytest.mark.parametrize(
    ("workers", "estimate", "expected"),
    [
        (1, None, (1, 9)),  # it never ran: nothing is queued behind it
        (2, None, (2, 8)),
        (1, 300_000.0, (1, 9)),  # as long as the budget
        (1, 299_999.0, (1, 9)),
        (1, 149_999.0, (2, 8)),
        (1, 100_000.0, (2, 8)),  # 100 us are held: with two more it would be the whole budget
        (2, 99_999.0, (6, 4)),
        (2, 1_000.0, (10, 0)),
    ],
)
def test_a_worker_holds_tasks_of_less_than_the_budget(
    workers: int, estimate: float | None, expected: tuple[int, int]
) -> None:
    assert held_and_queued(workers, estimate, 10) == expected


def test_queue_run_and_transport_times_are_sums_over_tasks() -> None:
    async def test(pool: PipePool) -> None:
        await asyncio.gather(*(pool.run(calls.sleep, 0.05) for _ in range(3)))
        stats = pool.stats()
        assert 0.15 <= stats.run_s < 1.5
        assert 0.10 <= stats.queue_s < 3  # the second waits for one, the third for two
        assert 0 < stats.transport_s < 1.5

    in_pool(test, 1)


def test_a_timeout_that_passes_while_its_task_is_queued_again_is_no_error() -> None:
    errors: list[dict[str, Any]] = []

    async def test(pool: PipePool) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        assert pool._scheduler
        pool._scheduler._functions.get(calls.sleep).estimate = 1000.0
        long = asyncio.ensure_future(pool.run(calls.sleep, 0.4))
        await asyncio.sleep(0)
        behind = asyncio.ensure_future(pool.run(calls.sleep, 0, timeout=0.2))
        await wait_for(lambda: pool.stats().running == 2)
        await wait_for(lambda: (pool.stats().running, pool.stats().queued) == (1, 1))
        assert await behind == await long
        assert pool.stats().killed == 0

    in_pool(test, 1)
    assert errors == []


def test_a_timeout_counts_from_the_start_of_the_task_and_not_from_sending_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience = 10 * START_GRACE  # CPUs may be busy
    monkeypatch.setattr("pipepool.scheduling.accounting.START_GRACE", patience)

    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        os.kill(pid, signal.SIGSTOP)
        future = asyncio.ensure_future(pool.run(calls.same, 3, timeout=1.5))
        await asyncio.sleep(1.7)
        os.kill(pid, signal.SIGCONT)
        assert await future == 3
        assert (pool.stats().killed, pool.stats().restarts) == (0, 0)

    in_pool(test, 1)


@pytest.mark.parametrize(
    ("timeout", "queue_timeout"),
    [(None, 0.0), (None, 0.1), (0.01, 3.0), (0.3, 0.5), (0.9, 0.1), (0.9, None), (5.0, None)],
)
def test_a_task_that_a_stopped_worker_does_not_start_fails_2_s_after_its_limit(
    timeout: float | None, queue_timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks run on a clock that is set to the time of the next check."""
    limits = [each for each in (timeout, queue_timeout) if each is not None]
    delays: list[tuple[float, int]] = []

    async def test(pool: PipePool) -> None:
        engine = pool._scheduler
        assert engine is not None
        [connection] = engine.manager.open
        assert connection.pid is not None
        os.kill(connection.pid, signal.SIGSTOP)
        timers = engine._deadlines
        monkeypatch.setattr(
            timers,
            "_check_later",
            lambda _, seconds, seen=-1: delays.append((seconds, seen)),
        )
        future = asyncio.ensure_future(
            pool.run(calls.add, 1, timeout=timeout, queue_timeout=queue_timeout)
        )
        await wait_for(lambda: delays)
        [task] = connection.tasks.values()
        now = task.sent
        monkeypatch.setattr("pipepool.scheduling.accounting.monotonic_ns", lambda: now)
        for _ in range(500):
            seconds, seen = delays.pop()
            now += int(seconds * 1e9) + 1000
            timers._check_times(task, seen)
            if task.is_ended:
                break
        monkeypatch.undo()
        assert (now - task.sent) / 1e9 <= min(limits) + 2.001  # s
        with pytest.raises(TimeoutError, match="did not start the task"):
            await future
        await wait_for(lambda: pool.stats().restarts == 1)

    in_pool(test, 1)


def test_tasks_that_a_worker_skipped_are_all_sent_again() -> None:
    async def test(pool: PipePool) -> None:
        scheduler = pool._scheduler
        assert scheduler
        scheduler._functions.get(calls.same).estimate = 1000.0
        [connection] = scheduler.manager.open
        assert connection.pid
        os.kill(connection.pid, signal.SIGSTOP)
        futures = [asyncio.ensure_future(pool.run(calls.same, n)) for n in range(4)]
        await wait_for(lambda: pool.stats().running == 4)
        skipped = [(sequence, protocol.SKIPPED, None, 0) for sequence in list(connection.tasks)[1:]]
        scheduler.results_received(connection, skipped, memoryview(b""))
        assert (pool.stats().running, pool.stats().queued) == (4, 0)  # they are sent once more
        assert connection.load == sum(each.cost for each in connection.tasks.values()) == 4000.0
        os.kill(connection.pid, signal.SIGCONT)
        assert await asyncio.gather(*futures) == [0, 1, 2, 3]
        assert pool.stats().done == 4

    in_pool(test, 1)


@pytest.mark.parametrize(("estimate", "shares"), [(1000.0, [1, 5]), (60_000.0, [3, 3])])
def test_tasks_share_a_worker_if_together_they_are_shorter_than_a_hop(
    estimate: float, shares: list[int]
) -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler
        pool._scheduler._functions.get(calls.pid).estimate = estimate
        pids = pool.stats().pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)  # so that no result comes meanwhile
        futures = [asyncio.ensure_future(pool.run(calls.pid)) for _ in range(6)]
        await wait_for(lambda: pool.stats().running == 6)
        held = [len(each.tasks) for each in pool._scheduler.manager.open]
        assert sorted(held) == shares  # the first task is sent immediately, alone
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        assert {*await asyncio.gather(*futures)} == {*pids}

    in_pool(test, 2)


def test_no_worker_holds_more_than_its_budget() -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler
        pool._scheduler._functions.get(calls.pid).estimate = 1300.0
        pids = pool.stats().pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        futures = [asyncio.ensure_future(pool.run(calls.pid)) for _ in range(700)]
        await wait_for(lambda: pool.stats().running > 400)
        loads = [each.load for each in pool._scheduler.manager.open]
        assert all(BUDGET - 1300.0 < load <= BUDGET for load in loads)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        assert {*await asyncio.gather(*futures)} <= {*pids}

    in_pool(test, 2)


def test_a_metrics_callback_sees_the_counts_of_the_moment() -> None:
    running: list[int] = []

    async def test(pool: PipePool) -> None:
        pools.append(pool)
        await asyncio.gather(*(pool.run(calls.same, n) for n in range(50)))
        assert running[-1] == 0

    pools: list[PipePool] = []
    in_pool(test, 1, metrics=lambda _: running.append(pools[0].stats().running))


def test_stats_count_each_task_once_at_any_moment() -> None:
    """After a timeout its task is in `failed` only; in `close(0)` the sum does not change."""
    sums: list[int] = []
    waiting: list[tuple[int, int]] = []

    def observe(_: object) -> None:
        if pools:
            stats = pools[0].stats()
            sums.append(stats.queued + stats.running + stats.done + stats.failed + stats.cancelled)
            waiting.append((stats.queued, stats.running))

    async def test(pool: PipePool) -> None:
        with pytest.raises(TimeoutError):
            await pool.run(calls.sleep, 20, timeout=0.05)
        stats = pool.stats()
        assert (stats.queued, stats.running, stats.failed) == (0, 0, 1)
        tasks = [asyncio.ensure_future(pool.run(calls.sleep, 20)) for _ in range(4)]
        await wait_for(lambda: (pool.stats().queued, pool.stats().running) == (2, 2))
        pools.append(pool)
        await pool.close(0)
        assert sums == [5] * 4
        assert waiting == [(1, 2), (0, 2), (0, 1), (0, 0)]
        await asyncio.wait(tasks)
        assert all(isinstance(each.exception(), BrokenWorker) for each in tasks)

    pools: list[PipePool] = []
    in_pool(test, 2, metrics=observe)


def test_an_unexpected_result_loses_no_other_result_of_its_frame() -> None:
    async def test(pool: PipePool) -> None:
        scheduler = pool._scheduler
        assert scheduler
        [connection] = scheduler.manager.open
        assert connection.pid
        os.kill(connection.pid, signal.SIGSTOP)
        future = asyncio.ensure_future(pool.run(calls.same, 3))
        await wait_for(lambda: connection.tasks)
        frame = [(999, protocol.PLAIN, 7, 0), (*connection.tasks, protocol.PLAIN, 4, 0)]
        scheduler.results_received(connection, frame, memoryview(b""))
        assert await asyncio.wait_for(future, 5) == 4
        os.kill(connection.pid, signal.SIGCONT)
        assert await pool.run(calls.same, 5) == 5  # the worker's result 3 came late and was dropped
        assert pool.stats().done == 2

    in_pool(test, 1)


def test_the_load_of_a_worker_is_the_cost_of_its_tasks_also_if_one_takes_longer() -> None:
    async def test(pool: PipePool) -> None:
        scheduler = pool._scheduler
        assert scheduler
        scheduler._functions.get(calls.sleep).estimate = 1000.0
        [connection] = scheduler.manager.open
        assert scheduler.can_send_at_once is True
        long = asyncio.ensure_future(pool.run(calls.sleep, 0.6))
        await asyncio.sleep(0.05)  # while no task waits behind it, nothing is checked
        assert scheduler.can_send_at_once is False
        others = [asyncio.ensure_future(pool.run(calls.sleep, 0)) for _ in range(3)]
        await wait_for(lambda: pool.stats().running == 4)
        await wait_for(lambda: (pool.stats().running, pool.stats().queued) == (1, 3))
        [held] = connection.tasks.values()
        assert connection.load == pytest.approx(held.cost)
        assert held.cost > 5e6  # ns: its run time at the check
        assert await asyncio.gather(long, *others) == [connection.pid] * 4

    in_pool(test, 1)


def test_a_rejected_task_does_not_search_the_queue_without_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[int] = []

    def search(queue: Queue) -> Iterator[Task]:
        searches.append(1)
        return (each for each in queue._tasks if not each.is_ended)

    with PipeExecutor(1, max_queue=3) as executor:
        tasks = [executor.submit(calls.sleep, 0.5)]
        assert wait_until(tasks[0].running)
        tasks += [executor.submit(calls.add, 1) for _ in range(3)]
        monkeypatch.setattr(Queue, "__iter__", search)
        for _ in range(10):
            assert isinstance(executor.submit(calls.add, 1).exception(LIMIT), QueueFull)
        assert not searches
        assert tasks[2].cancel()
        last = executor.submit(calls.add, 1)  # in the place of the cancelled one
        for _ in range(10):
            assert isinstance(executor.submit(calls.add, 1).exception(LIMIT), QueueFull)
        assert len(searches) == 1
        monkeypatch.undo()
        assert last.result(LIMIT) == 1


@pytest.mark.parametrize("first", [1, 2])
def test_cancelled_calls_of_an_executor_leave_room_at_once(first: int) -> None:
    with PipeExecutor(1, max_queue=1000) as executor:
        tasks = [executor.submit(calls.sleep, 0.5)]
        assert wait_until(tasks[0].running)
        tasks += [executor.submit(calls.add, 1) for _ in range(1000)]
        for _ in range(3):
            assert isinstance(executor.submit(calls.add, 1).exception(LIMIT), QueueFull)
        assert all(each.cancel() for each in tasks[first:])  # with 2 the oldest still waits
        assert executor.submit(calls.add, 1).result(LIMIT) == 1


def test_cancelled_calls_of_a_pool_leave_room_at_once() -> None:
    async def test(pool: PipePool) -> None:
        tasks = [asyncio.ensure_future(pool.run(calls.sleep, 0.2)) for _ in range(4)]
        await wait_for(lambda: pool.stats().queued == 3)
        for each in tasks[1:]:
            each.cancel()
        assert await pool.run(calls.add, 1) == 1  # in the same iteration of the loop
        assert pool.stats().cancelled == 3
        await tasks[0]

    in_pool(test, 1, max_queue=3)


def test_a_task_whose_claim_fails_is_not_sent() -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler
        pool._scheduler._claim = lambda future: False
        loop = asyncio.get_running_loop()
        pool._scheduler.submit(calls.add, (1,), {}, loop.create_future(), DEFAULTS)
        await asyncio.sleep(0)
        stats = pool.stats()
        assert (stats.running, stats.queued, stats.done, stats.failed) == (0, 0, 0, 0)
        pool._scheduler._claim = None
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1)
