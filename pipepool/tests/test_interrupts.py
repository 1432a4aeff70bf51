"""An exception in a callback of the loop, such as KeyboardInterrupt, fails at most one task."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipepool import PipeExecutor, PipePool, TaskExit
from pipepool.workers.worker_connection import DEFAULTS
from pool_tests import calls
from pool_tests.helpers import LIMIT, assume_short, in_pool, read_line, wait_for, wait_until

pytestmark = pytest.mark.server  # starts worker processes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_group_does_not_end_a_fork_server_that_starts(number: int) -> None:
    async def test() -> None:
        pool = PipePool(1)
        starting = asyncio.ensure_future(pool.start())
        await asyncio.sleep(0)
        assert pool._scheduler is not None
        os.kill(pool._scheduler.manager._fork_server._process.pid, number)
        async with asyncio.timeout(LIMIT):
            await starting
            assert await pool.run(calls.add, 1, 2) == 3
            await pool.close()

    asyncio.run(test())


class InterruptedFuture(asyncio.Future[Any]):
    """A future whose set_result is interrupted by Ctrl-C."""

    def set_result(self, result: Any) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_while_a_result_is_handled_loses_no_other_result() -> None:
    async def test(pool: PipePool) -> None:
        scheduler = pool._scheduler
        assert scheduler is not None
        assume_short(scheduler, calls.add)
        [connection] = scheduler.manager.open
        interrupted = InterruptedFuture()
        futures = [asyncio.Future(), interrupted, asyncio.Future(), asyncio.Future()]
        for number, future in enumerate(futures):
            scheduler.submit(calls.add, (number,), {}, future, DEFAULTS)
        loop = asyncio.get_running_loop()
        loop.remove_reader(connection._descriptor)  # read by hand: Ctrl-C would end the loop
        while not interrupted.done():
            await asyncio.sleep(0.001)
            with contextlib.suppress(KeyboardInterrupt):
                connection.read()
        others = [future for future in futures if future is not interrupted]
        async with asyncio.timeout(5):
            while not all(future.done() for future in others):
                await asyncio.sleep(0.001)
                connection.read()
        assert [future.result() for future in others] == [0, 2, 3]
        assert isinstance(interrupted.exception(), TaskExit)
        loop.add_reader(connection._descriptor, connection.read)
        assert await pool.run(calls.add, 4) == 4
        stats = pool.stats()
        assert (stats.running, stats.done, stats.failed) == (0, 4, 1)

    in_pool(test, 1)


class Interrupts:
    """An argument that interrupts the process while it is pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        os.kill(os.getpid(), signal.SIGINT)
        return int, ()


def test_ctrl_c_in_submit_is_delivered_to_the_loop_once() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        received: list[int] = []
        loop.add_signal_handler(signal.SIGINT, received.append, 1)
        with PipeExecutor(1) as executor:
            assert await loop.run_in_executor(executor, calls.add, 1) == 1
            engine = executor._engine
            await wait_for(lambda: engine._scheduler and engine._scheduler.can_send_at_once)
            await loop.run_in_executor(executor, calls.same, Interrupts())
            await asyncio.sleep(0.1)
            assert received == [1]
        loop.remove_signal_handler(signal.SIGINT)

    asyncio.run(asyncio.wait_for(body(), LIMIT))


class HangsWhenPickled:
    """An argument whose pickling hangs, and is interrupted."""

    def __reduce__(self) -> tuple[object, ...]:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
        return int, ()


def test_ctrl_c_interrupts_the_code_of_an_argument_that_submit_pickles() -> None:
    with PipeExecutor(1) as executor:
        assert executor.submit(calls.add, 1).result(LIMIT) == 1
        scheduler = executor._engine._scheduler
        assert scheduler is not None
        for _ in range(3):
            assert wait_until(lambda: scheduler.can_send_at_once)
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                executor.submit(calls.same, HangsWhenPickled())
            assert time.monotonic() - began < 10
        assert [*executor.map(calls.add, range(20))] == [*range(20)]
        assert scheduler.accounting.pending == 0


def test_ctrl_c_interrupts_the_code_of_an_argument_without_a_module_name() -> None:
    names: dict[str, Any] = {"__name__": None, "run": HangsWhenPickled.__reduce__}
    exec("class Nameless:\n    def __reduce__(self): return run(self)", names)
    with PipeExecutor(1) as executor:
        assert executor.submit(calls.add, 1).result(LIMIT) == 1
        scheduler = executor._engine._scheduler
        assert scheduler is not None
        assert wait_until(lambda: scheduler.can_send_at_once)
        with pytest.raises(KeyboardInterrupt):
            executor.submit(calls.same, names["Nameless"]())


def test_ctrl_c_is_raised_in_submit_also_if_the_loop_checks_the_threads_of_its_callers() -> None:
    with PipeExecutor(1) as executor:
        assert executor.submit(calls.add, 1).result(LIMIT) == 1
        engine = executor._engine
        assert engine._loop is not None
        engine._loop.set_debug(True)
        assert wait_until(lambda: engine._scheduler and engine._scheduler.can_send_at_once)
        with pytest.raises(KeyboardInterrupt):
            executor.submit(calls.same, HangsWhenPickled())
        assert executor.submit(calls.add, 2).result(LIMIT) == 2


class Stop(Exception):
    """What a signal handler of the application raises."""


@pytest.mark.parametrize("kind", [SystemExit, Stop])
def test_submit_raises_what_a_signal_handler_raised_in_the_code_of_an_argument(
    kind: type[BaseException],
) -> None:
    def handle(*_: object) -> None:
        raise kind(3)

    with PipeExecutor(1) as executor:
        assert executor.submit(calls.add, 1).result(LIMIT) == 1
        scheduler = executor._engine._scheduler
        assert scheduler is not None
        assert wait_until(lambda: scheduler.can_send_at_once)
        before = signal.signal(signal.SIGINT, handle)
        try:
            with pytest.raises(kind):
                executor.submit(calls.same, HangsWhenPickled())
        finally:
            signal.signal(signal.SIGINT, before)
        assert executor.submit(calls.add, 2).result(LIMIT) == 2
        assert scheduler.accounting.pending == 0


ROUNDS = """
import os, random, signal, sys, threading, time
from pipepool import PipeExecutor

def interrupt(begin):  # a process of its own, so that the signal comes at any instruction
    while os.read(begin, 1):
        time.sleep(random.uniform(0.0005, 0.004))
        os.kill(os.getppid(), signal.SIGINT)
    os._exit(0)

if __name__ == "__main__":
    begin, trigger = os.pipe()
    if os.fork() == 0:
        os.close(trigger)
        interrupt(begin)
    os.close(begin)
    for _ in range(60):
        executor = PipeExecutor(1, busy_wait=False)
        executor.submit(abs, 0).result(20)
        try:
            os.write(trigger, b"x")
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                executor.submit(abs, 1).result()
        except KeyboardInterrupt:
            pass
        ending = threading.Thread(target=executor.shutdown, daemon=True)
        ending.start()
        ending.join(10)
        if ending.is_alive():
            print("shutdown hangs")
            os._exit(1)
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_ctrl_c_in_the_main_thread_leaves_no_call_of_an_executor_pending(tmp_path: Path) -> None:
    script = tmp_path / "rounds.py"
    script.write_text(ROUNDS)
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=100
    )
    assert (ended.stdout, ended.returncode) == ("", 0)


FAULTHANDLER = """
import faulthandler, os, signal, sys
from pipepool import PipeExecutor
if __name__ == "__main__":
    with PipeExecutor(1) as executor:
        executor.submit(abs, -1).result()
        faulthandler.register(signal.SIGINT, file=sys.stdout)
        executor.submit(abs, -1).result()
        os.kill(os.getpid(), signal.SIGINT)
        faulthandler.unregister(signal.SIGINT)
        print("restored", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_submit_keeps_a_handler_of_ctrl_c_that_c_code_installed() -> None:
    command = [sys.executable, "-c", FAULTHANDLER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert "most recent call first" in done.stdout, done.stderr
    assert done.stdout.endswith("restored True\n")


WAITING = """
import time
from pipepool import PipeExecutor
if __name__ == "__main__":
    with PipeExecutor(1) as executor:
        executor.submit(abs, -1).result()
        print("ready", flush=True)
        executor.submit(time.sleep, 60).result()
"""


def test_a_second_ctrl_c_ends_a_program_that_waits_for_its_tasks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WAITING)
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            assert read_line(process.stdout) == "ready\n"
            time.sleep(0.2)  # for the second call
            for _ in range(2):
                os.killpg(process.pid, signal.SIGINT)
                time.sleep(0.5)
            assert process.wait(20) == -signal.SIGINT
        finally:
            process.kill()
