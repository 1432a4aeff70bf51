"""PipeExecutor behaves as concurrent.futures documents and its tests require."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from pipepool import BrokenWorker, PipeExecutor
from pool_tests import calls
from pool_tests.helpers import ENVIRONMENT, FREE_THREADED, wait_until

pytestmark = pytest.mark.server  # starts worker processes

LIMIT = 10.0  # s for any one wait


@pytest.fixture(scope="module")
def shared_executor() -> Iterator[PipeExecutor]:
    """One executor for all tests that do no harm to its workers."""
    with PipeExecutor(2) as made:
        list(made.map(time.sleep, [0.05, 0.05], timeout=LIMIT))
        yield made


@pytest.fixture(params=["new", "idle"])
def executor(
    request: pytest.FixtureRequest, shared_executor: PipeExecutor
) -> Iterator[PipeExecutor]:
    """An executor that has no thread yet, and one whose workers are idle."""
    if request.param == "new":
        with PipeExecutor(2) as made:
            yield made
    else:
        assert wait_until(lambda: is_idle(shared_executor))
        yield shared_executor


def is_idle(executor: PipeExecutor) -> bool:
    """Whether its loop waits for events, and a worker is idle."""
    engine = executor._engine
    if engine._scheduler is None or not engine._loop_lock.acquire(blocking=False):
        return False
    try:
        return engine._scheduler.can_send_at_once
    finally:
        engine._loop_lock.release()


def divide(a: int, b: int) -> tuple[int, int]:
    return divmod(a, b)


def capture(*args: object, **kwargs: object) -> tuple[object, object]:
    return args, kwargs


def test_submit_returns_a_future_of_the_result(executor: PipeExecutor) -> None:
    assert executor.submit(pow, 2, 8).result(LIMIT) == 256
    assert executor.submit(capture, 1, self=2, fn=3).result(LIMIT) == ((1,), {"self": 2, "fn": 3})
    with pytest.raises(TypeError):
        executor.submit()  # type: ignore[call-arg]


def test_map_yields_in_order_and_raises_in_place_of_a_result(executor: PipeExecutor) -> None:
    assert list(executor.map(pow, range(10), range(10))) == list(map(pow, range(10), range(10)))
    results = executor.map(divide, [1, 1, 1, 1], [2, 3, 0, 5])
    assert [next(results), next(results)] == [(0, 1), (0, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("chunksize", [1, 2, 3, 50])
def test_map_takes_chunks_of_any_size(chunksize: int, executor: PipeExecutor) -> None:
    expected = list(map(pow, range(40), range(40)))
    assert list(executor.map(pow, range(40), range(40), chunksize=chunksize)) == expected


def test_map_rejects_a_chunksize_of_0(executor: PipeExecutor) -> None:
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(pow, [1], [2], chunksize=0)


def test_map_times_out(executor: PipeExecutor) -> None:
    executor.submit(calls.pid).result(LIMIT)
    results = executor.map(calls.sleep, [0, 0, 3], timeout=1.5)
    next(results)
    next(results)
    with pytest.raises(TimeoutError):
        next(results)


@pytest.mark.parametrize("chunksize", [1, 2])
def test_map_keeps_no_reference_to_a_yielded_result(chunksize: int, executor: PipeExecutor) -> None:
    count = 0
    for each in executor.map(calls.result, range(4), timeout=LIMIT, chunksize=chunksize):
        reference = weakref.ref(each)
        assert each.number == count
        del each
        assert is_gone(reference, executor)
        count += 1
    assert count == 4


def test_only_its_future_refers_to_a_result(executor: PipeExecutor) -> None:
    futures = [executor.submit(calls.result, number) for number in range(5)]
    given = [weakref.ref(future.result(LIMIT)) for future in futures]
    assert all(reference() is not None for reference in given)
    while futures:
        futures.pop()
        assert is_gone(given.pop(), executor)
        assert all(reference() is not None for reference in given)


def is_gone(reference: weakref.ref[calls.Result], executor: PipeExecutor) -> bool:
    """Wait until there is no reference left, without garbage collection.

    A free-threaded Python frees an object when the thread that created it next runs.
    """

    def is_none() -> bool:
        if FREE_THREADED:
            executor.submit(calls.pid).result(LIMIT)
        return reference() is None

    return wait_until(is_none, 2.0)


def test_wait_and_as_completed_work(executor: PipeExecutor) -> None:
    executor.submit(calls.sleep, 0).result(LIMIT)  # the workers have started
    slow, quick = executor.submit(calls.sleep, 1.5), executor.submit(calls.sleep, 0)
    done, waiting = concurrent.futures.wait(
        [slow, quick], LIMIT, concurrent.futures.FIRST_COMPLETED
    )
    assert (done, waiting) == ({quick}, {slow})
    assert set(concurrent.futures.as_completed([slow, quick], LIMIT)) == {slow, quick}
    failing = executor.submit(divide, 1, 0)
    done, _ = concurrent.futures.wait([failing], LIMIT, concurrent.futures.FIRST_EXCEPTION)
    assert done == {failing}


def test_a_running_future_is_running_and_a_waiting_one_can_be_cancelled() -> None:
    with PipeExecutor(1) as executor:
        running, waiting = executor.submit(calls.sleep, 0.5), executor.submit(calls.sleep, 9)
        assert wait_until(running.running)
        assert not running.cancel()
        assert waiting.cancel()
        assert executor.submit(calls.add, 1).result(LIMIT) == 1
        assert waiting.cancelled()


def test_callbacks_are_called(executor: PipeExecutor) -> None:
    called = threading.Event()
    executor.submit(calls.pid).add_done_callback(lambda future: called.set())
    assert called.wait(LIMIT)


def test_a_callback_may_submit(executor: PipeExecutor) -> None:
    second: Future[int] = Future()

    def chain(_: object) -> None:
        inner = executor.submit(calls.add, 40, 2)
        inner.add_done_callback(lambda future: second.set_result(future.result()))

    executor.submit(calls.pid).add_done_callback(chain)
    assert second.result(LIMIT) == 42


def test_a_pickling_error_is_raised_by_the_future(executor: PipeExecutor) -> None:
    with pytest.raises(Exception, match="lambda"):
        executor.submit(lambda: None).result(LIMIT)
    with pytest.raises(Exception, match="lambda"):
        executor.submit(calls.same, lambda: None).result(LIMIT)
    assert executor.submit(calls.add, 1).result(LIMIT) == 1


def test_the_traceback_of_the_worker_is_the_cause(executor: PipeExecutor) -> None:
    error = executor.submit(calls.fail, "error").exception(LIMIT)
    assert type(error) is ValueError
    assert 'raise ValueError("wrong")' in str(error.__cause__)


@pytest.mark.parametrize("tasks", [0, 2])
def test_a_worker_that_dies_breaks_its_future_only(tasks: int) -> None:
    with PipeExecutor(2) as executor:
        list(executor.map(calls.sleep, [0.05] * tasks, timeout=LIMIT))
        assert not tasks or wait_until(lambda: is_idle(executor))
        with pytest.raises(BrokenProcessPool, match="exit code 3"):
            executor.submit(calls.exit_process, 3).result(LIMIT)
        assert executor.submit(calls.add, 1).result(LIMIT) == 1


def test_shutdown_waits_for_all_submitted_calls() -> None:
    executor = PipeExecutor(1)
    futures = [executor.submit(calls.sleep, 0.05) for _ in range(5)]
    executor.shutdown()
    assert all(future.done() for future in futures)
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(calls.pid)


def test_shutdown_without_wait_returns_while_tasks_continue() -> None:
    executor = PipeExecutor(1)
    future = executor.submit(calls.sleep, 0.4)
    executor.shutdown(wait=False)
    assert not future.done()
    assert future.result(LIMIT)
    executor.shutdown()


def test_shutdown_with_cancel_futures_cancels_waiting_calls() -> None:
    executor = PipeExecutor(1)
    futures = [executor.submit(calls.sleep, 0.2) for _ in range(20)]
    assert wait_until(futures[0].running)
    executor.shutdown(cancel_futures=True)
    assert futures[0].result(LIMIT) and futures[-1].cancelled()
    assert all(future.done() for future in futures)


@pytest.mark.parametrize("how", ["shutdown", "kill"])
def test_waiting_for_calls_ends_when_they_are_cancelled_by_the_end_of_an_executor(how: str) -> None:
    executor = PipeExecutor(1)
    running = executor.submit(calls.sleep, 0.5)
    assert wait_until(running.running)
    futures = [executor.submit(calls.sleep, 0.1) for _ in range(5)]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(concurrent.futures.wait, futures, LIMIT)
        iterating = threads.submit(lambda: {*concurrent.futures.as_completed(futures, LIMIT)})
        assert wait_until(lambda: len(futures[-1]._waiters) == 2)  # type: ignore[attr-defined]
        futures[-1].cancel()
        if how == "shutdown":
            executor.shutdown(cancel_futures=True)
        else:
            executor.kill_workers()
            executor.shutdown()
        assert waiting.result(LIMIT).done == {*futures}
        assert iterating.result(LIMIT) == {*futures}
    assert all(each.cancelled() for each in futures)


def test_waiting_for_a_cancelled_call_ends_when_no_worker_can_start() -> None:
    executor = PipeExecutor(1, None, calls.sleep, (60,))
    futures = [executor.submit(calls.add, 1) for _ in range(2)]
    assert wait_until(lambda: executor._engine._scheduler and executor._engine._scheduler.queue)
    assert futures[1].cancel()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(concurrent.futures.wait, futures, LIMIT)
        executor.kill_workers()
        assert waiting.result(2 * LIMIT).done == {*futures}
    executor.shutdown()


def test_shutdown_works_before_the_first_call_and_twice() -> None:
    executor = PipeExecutor(1)
    executor.shutdown()
    executor.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit(divide, 7, 2)


def test_the_thread_of_a_collected_executor_ends() -> None:
    executor = PipeExecutor(1)
    future = executor.submit(calls.pid)
    pid, thread = future.result(LIMIT), executor._engine._thread
    assert thread is not None
    del executor, future
    gc.collect()
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert pid != os.getpid()


def test_a_script_that_forgets_shutdown_still_gets_its_results() -> None:
    program = (
        "from pipepool import PipeExecutor\nfrom pool_tests import calls\n"
        "if __name__ == '__main__':\n"
        "    PipeExecutor(1).submit(calls.sleep, 0.3).add_done_callback(lambda f: print('done'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=LIMIT, env=ENVIRONMENT
    )
    assert (done.stdout, done.stderr) == (b"done\n", b"")


def test_a_function_of_the_main_script_is_found(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "from pipepool import PipeExecutor\ndef double(x): return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    with PipeExecutor(1) as executor: print(list(executor.map(double, [1, 2])))\n"
    )
    environment = ENVIRONMENT
    command = [sys.executable, path]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT, env=environment)
    assert (done.stdout, done.stderr) == (b"[2, 4]\n", b"")


def test_a_script_without_its_guard_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "from pipepool import PipeExecutor\n"
        "with PipeExecutor(1) as executor: print(executor.submit(len, []).result())\n"
    )
    environment = ENVIRONMENT
    command = [sys.executable, path]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT, env=environment)
    assert done.returncode == 1
    assert b"if __name__ == '__main__':" in done.stderr


@pytest.mark.parametrize("initializer", [calls.fail_to_initialize, calls.exit_in_initializer])
def test_a_failing_initializer_breaks_the_executor(initializer: object) -> None:
    with PipeExecutor(2, initializer=initializer) as executor:  # type: ignore[arg-type]
        with pytest.raises(BrokenProcessPool) as caught:
            executor.submit(calls.pid).result(LIMIT)
        if initializer is calls.fail_to_initialize:
            assert repr(caught.value.__cause__) == "OSError('no database')"
            trace = str(caught.value.__cause__.__cause__)  # type: ignore[union-attr]
            assert "in fail_to_initialize" in trace
        with pytest.raises(BrokenProcessPool):
            executor.submit(calls.pid)


def test_the_selector_is_the_default_one_at_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """gevent replaces it, perhaps after this package was imported."""
    with PipeExecutor(1) as executor:
        monkeypatch.setattr(selectors, "DefaultSelector", selectors.SelectSelector)
        executor.submit(calls.pid).result(LIMIT)
        selector = executor._engine._loop._selector  # type: ignore[union-attr]
        assert isinstance(selector, selectors.SelectSelector)


def test_bad_settings_raise_the_messages_of_the_standard_library() -> None:
    with pytest.raises(ValueError, match="max_workers must be greater than 0"):
        PipeExecutor(0)
    with pytest.raises(TypeError, match="initializer must be a callable"):
        PipeExecutor(1, initializer=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_tasks_per_child must be >= 1"):
        PipeExecutor(1, max_tasks_per_child=0)
    with pytest.raises(TypeError, match="max_tasks_per_child must be an integer"):
        PipeExecutor(1, max_tasks_per_child=1.5)  # type: ignore[arg-type]


def test_workers_are_recycled() -> None:
    with PipeExecutor(1, max_tasks_per_child=3) as executor:
        pids = [executor.submit(calls.pid).result(LIMIT) for _ in range(12)]
    assert len(set(pids)) == 4


def test_run_in_executor_works_from_a_loop(executor: PipeExecutor) -> None:
    async def body() -> list[int]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            *(loop.run_in_executor(executor, calls.add, n, 1) for n in range(100))
        )

    assert asyncio.run(body()) == list(range(1, 101))


def test_many_threads_submit_at_once(executor: PipeExecutor) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        sums = threads.map(
            lambda _: sum(f.result(LIMIT) for f in [executor.submit(len, "x") for _ in range(50)]),
            range(8),
        )
        assert list(sums) == [50] * 8


class CallsWhenPickled:
    """An argument that calls a function when it is pickled, and arrives as 0."""

    def __init__(self, note: Callable[[], object]) -> None:
        self.note = note

    def __reduce__(self) -> tuple[type[int], tuple[()]]:
        self.note()
        return int, ()


def test_the_callers_thread_sends_a_call_if_a_worker_is_idle() -> None:
    threads: list[str] = []
    argument = CallsWhenPickled(lambda: threads.append(threading.current_thread().name))
    with PipeExecutor(1) as executor:
        executor.submit(int).result(LIMIT)
        assert wait_until(lambda: is_idle(executor))
        assert executor.submit(abs, argument).result(LIMIT) == 0
        busy = executor.submit(time.sleep, 0.2)
        assert executor.submit(abs, argument).result(LIMIT) == 0
        assert busy.done()
    assert threads == [threading.current_thread().name, "PipeExecutor"]


def test_pickling_an_argument_may_submit(executor: PipeExecutor) -> None:
    futures: list[Future[int]] = []
    argument = CallsWhenPickled(lambda: futures.append(executor.submit(pow, 2, 3)))
    assert executor.submit(abs, argument).result(LIMIT) == 0
    assert futures[0].result(LIMIT) == 8


def test_broken_worker_survives_pickling() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(BrokenWorker("it ended", -9)))
    assert (str(error), error.signal) == ("it ended", 9)
