"""Any exception of a task, an argument or a callback reaches its own caller only."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import Future
from multiprocessing import get_context
from typing import Any

import pytest

from pipepool import PipeExecutor, PipePool, RemoteError, TaskExit
from pool_tests import calls
from pool_tests.helpers import LIMIT, assume_short, in_pool

pytestmark = pytest.mark.server  # starts worker processes


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("no text", calls.WithoutText, ""),
        ("exits when pickled", RemoteError, "ExitsWhenPickled"),
        ("exit without text", RemoteError, "SystemExit"),
    ],
)
def test_an_exception_without_text_or_pickle_harms_no_other_task(
    kind: str, error: type[Exception], words: str
) -> None:
    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        others = [asyncio.ensure_future(pool.run(calls.same, n)) for n in range(5)]
        with pytest.raises(error) as raised:
            await pool.run(calls.fail_oddly, kind)
        assert not words or words in str(raised.value)
        assert await asyncio.gather(*others) == list(range(5))
        assert await pool.run(calls.pid) == pid

    in_pool(test, 1)


class Raising:
    """An argument that raises when it is pickled."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error


@pytest.mark.parametrize("is_short", [True, False])
def test_ctrl_c_while_an_argument_is_pickled_fails_that_call_alone(is_short: bool) -> None:
    loop = asyncio.new_event_loop()
    pool = PipePool(1)
    loop.run_until_complete(pool.start())
    if is_short:  # several tasks are sent together; else each when the one before has ended
        assume_short(pool._scheduler, calls.same)
    else:
        assert pool._scheduler is not None
        pool._scheduler._functions.get(calls.same).estimate = 1e9
    busy = loop.create_task(pool.run(calls.sleep, 0.1))
    queued = [loop.create_task(pool.run(calls.same, n)) for n in range(4)]
    interrupted = loop.create_task(pool.run(calls.same, Raising(KeyboardInterrupt())))
    queued += [loop.create_task(pool.run(calls.same, n)) for n in range(4, 8)]
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(asyncio.wait(queued, timeout=LIMIT))
    loop.run_until_complete(asyncio.wait([busy, *queued, interrupted], timeout=LIMIT))
    assert [each.result() for each in queued] == list(range(8))
    assert interrupted.cancelled()
    stats = pool.stats()
    assert (stats.queued, stats.running) == (0, 0)
    assert loop.run_until_complete(pool.run(calls.add, 1)) == 1
    loop.run_until_complete(pool.close())
    loop.close()


def test_an_exit_while_an_argument_is_pickled_fails_that_call_alone() -> None:
    with PipeExecutor(1) as executor:
        busy = executor.submit(calls.sleep, 0.2)
        exiting = executor.submit(calls.same, Raising(SystemExit(3)))
        after = executor.submit(calls.add, 1)
        with pytest.raises(TaskExit, match="raised SystemExit") as caught:
            exiting.result(LIMIT)
        assert caught.value.code == 3
        assert (busy.result(LIMIT) > 0, after.result(LIMIT)) == (True, 1)
        assert executor.submit(calls.add, 2).result(LIMIT) == 2


def test_an_exit_in_a_done_callback_ends_no_process(caplog: pytest.LogCaptureFixture) -> None:
    with PipeExecutor(1) as executor:
        for failing in (False, True):
            future = executor.submit(calls.fail, "error" if failing else "none")
            future.add_done_callback(lambda _: sys.exit(3))
            future.exception(LIMIT)
        assert executor.submit(calls.add, 1).result(LIMIT) == 1
    text = caplog.text
    caplog.clear()  # its tracebacks refer to the pool
    assert text.count("a done callback raised") == 2


def test_a_thread_that_cannot_be_started_leaves_no_call_hanging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with PipeExecutor(1) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="can't start new thread"):
                    executor.submit(calls.add, 1)
        assert executor.submit(calls.add, 1).result(LIMIT) == 1


def refuse(_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_an_executor_that_is_collected_while_its_lock_is_held_ends() -> None:
    executor = PipeExecutor(1)
    future: Future[int] = executor.submit(calls.add, 1)
    engine = executor._engine
    assert future.result(LIMIT) == 1
    with engine._lock:
        del executor  # its finaliser takes the lock
    assert engine._thread is not None
    engine._thread.join(LIMIT)
    assert not engine._thread.is_alive()


def test_a_result_that_exits_when_it_is_loaded_ends_no_process() -> None:
    with PipeExecutor(1) as executor:
        with pytest.raises(TaskExit, match="raised SystemExit"):
            executor.submit(calls.return_exits_when_loaded).result(LIMIT)
        assert executor.submit(calls.add, 1).result(LIMIT) == 1


def test_an_initializer_that_cannot_be_pickled_raises_and_leaves_no_process() -> None:
    lock = get_context("forkserver").Lock()
    with pytest.raises(TypeError, match="cannot be pickled"):
        PipePool(1, calls.initialize, (lock, lambda: None))
    in_pool(lambda pool: pool.run(calls.add, 1), 1, initializer=calls.initialize, initargs=(lock,))
