"""A crash, a timeout or an error affects only the task that caused it."""

from __future__ import annotations

import asyncio
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipepool import BrokenWorker, PipePool, RemoteError, TaskExit
from pipepool.workers import protocol
from pipepool.workers.worker_connection import SUSPECT, WorkerState
from pool_tests import calls
from pool_tests.helpers import (
    ENVIRONMENT,
    LIMIT,
    assume_short,
    in_pool,
    is_alive,
    read_line,
    wait_for,
    wait_until,
)

pytestmark = pytest.mark.server  # starts worker processes


def test_a_worker_that_dies_fails_only_its_own_task_with_its_exit_code() -> None:
    async def test(pool: PipePool) -> None:
        before = {*pool.stats().pids}
        others = [asyncio.ensure_future(pool.run(calls.sleep, 0.01)) for _ in range(50)]
        with pytest.raises(BrokenWorker, match="exit code 3") as exited:
            await pool.run(calls.exit_process, 3)
        with pytest.raises(BrokenWorker, match="SIGKILL") as killed:
            await pool.run(calls.kill_self)
        assert (exited.value.exit_code, exited.value.signal) == (3, None)
        assert exited.value.pid in before and killed.value.pid != exited.value.pid
        assert (killed.value.exit_code, killed.value.signal) == (None, signal.SIGKILL)
        assert len(await asyncio.gather(*others)) == 50
        assert (pool.stats().crashed, pool.stats().restarts) == (2, 2)

    in_pool(test)


@pytest.mark.timing
def test_a_pool_has_all_its_workers_again_soon_after_one_was_killed() -> None:
    async def test(pool: PipePool) -> None:
        old = pool.stats().pids
        os.kill(old[0], signal.SIGKILL)
        begin = time.monotonic()
        await wait_for(lambda: len(pool.stats().pids) == 2 and old[0] not in pool.stats().pids)
        assert time.monotonic() - begin < 3 * 0.05

    in_pool(test)


def test_an_idempotent_task_is_retried_once_and_then_fails(tmp_path: Path) -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.die_once, str(tmp_path / "1"), idempotent=True) == "second"
        with pytest.raises(BrokenWorker):
            await pool.run(calls.die_once, str(tmp_path / "2"))
        with pytest.raises(BrokenWorker):
            await pool.run(calls.exit_process, 3, idempotent=True)
        assert pool.stats().restarts == 4

    in_pool(test)


def test_a_task_is_retried_once_if_the_exit_status_comes_before_the_end_of_the_stream(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs"

    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        manager = pool._scheduler.manager
        dying = next(reversed(manager.idle))
        for other in {*manager.open} - {dying}:
            other.sequence += 1000  # a retried task gets a higher number than it had
        task = asyncio.ensure_future(pool.run(calls.act, "crashes", str(path), 5, idempotent=True))
        await wait_for(lambda: dying.tasks)
        dying.stop_reading()
        with pytest.raises(BrokenWorker):
            await task
        await wait_for(lambda: len(pool.stats().pids) == 2)
        assert path.read_text().split() == ["5", "5"]
        assert (pool.stats().running, pool.stats().queued) == (0, 0)

    in_pool(test)


def retried(pool: PipePool) -> list[bool]:
    """Return for each task, queued or held, whether it was retried."""
    assert pool._scheduler is not None
    connections = pool._scheduler.manager.connections.values()
    held = [
        task
        for connection in connections
        for task in (*connection.tasks.values(), *connection.crashed)
    ]
    return [task.is_retried for task in (*pool._scheduler.queue, *held)]


def test_killing_workers_all_the_time_loses_no_idempotent_task() -> None:
    async def test(pool: PipePool) -> None:
        async def client() -> int:
            for n in range(30):
                assert await pool.run(calls.same, n, idempotent=True) == n
                await pool.run(calls.sleep, 0.002, idempotent=True)
            return 1

        clients = asyncio.gather(*(client() for _ in range(16)))
        kills = 0
        while not clients.done():
            await asyncio.sleep(0.1)
            await wait_for(lambda: not any(retried(pool)))  # a task is retried once only
            if pids := pool.stats().pids:
                os.kill(pids[kills % len(pids)], signal.SIGKILL)
                kills += 1
        assert sum(await clients) == 16
        assert kills >= 3

    in_pool(test)


def test_tasks_that_were_not_started_survive_the_death_of_their_worker() -> None:
    async def test(pool: PipePool) -> None:
        await asyncio.gather(*(pool.run(calls.same, n) for n in range(64)))  # all are known short
        tasks = [asyncio.ensure_future(pool.run(calls.same, n)) for n in range(20)]
        last = asyncio.ensure_future(pool.run(calls.sleep, 0.0))
        os.kill(pool.stats().pids[0], signal.SIGSTOP)
        os.kill(pool.stats().pids[0], signal.SIGKILL)
        assert await asyncio.gather(*tasks) == list(range(20))
        await last

    in_pool(test, 1)


def test_a_worker_whose_end_was_noticed_starts_no_other_task(tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    async def test(pool: PipePool) -> None:
        assume_short(pool._scheduler, calls.sleep, calls.close_descriptors_and_sleep, calls.note)
        first = asyncio.ensure_future(pool.run(calls.sleep, 0.0))  # sent alone
        closing = asyncio.ensure_future(pool.run(calls.close_descriptors_and_sleep, 0.3))
        behind = [asyncio.ensure_future(pool.run(calls.note, str(ran), str(n))) for n in range(3)]
        await asyncio.gather(first, *behind)
        with pytest.raises(BrokenWorker):
            await closing
        await asyncio.sleep(0.5)  # the worker lived on
        assert ran.read_text().split() == ["0", "1", "2"]

    in_pool(test, 1)


def test_a_timeout_counts_from_the_start_of_the_task_and_kills_no_other() -> None:
    async def test(pool: PipePool) -> None:
        begin = time.monotonic()
        first = asyncio.ensure_future(pool.run(calls.sleep, 0.3, timeout=5))
        queued = asyncio.ensure_future(pool.run(calls.sleep, 0.1, timeout=0.3))
        with pytest.raises(TimeoutError, match=r"timeout=0\.2 s"):
            await pool.run(calls.sleep, 20, timeout=0.2)
        await asyncio.gather(first, queued)
        assert await pool.run(calls.add, 1) == 1
        assert time.monotonic() - begin < 10
        assert (pool.stats().killed, pool.stats().failed) == (1, 1)

    in_pool(test, 1)


def test_a_worker_that_dies_at_the_check_of_a_timeout_loses_no_task() -> None:
    async def test(pool: PipePool) -> None:
        scheduler = pool._scheduler
        assert scheduler is not None
        [connection] = scheduler.manager.open
        assert connection.pid is not None
        os.kill(connection.pid, signal.SIGSTOP)
        future = asyncio.ensure_future(pool.run(calls.add, 1, timeout=0.5))
        await wait_for(lambda: connection.tasks)
        [task] = connection.tasks.values()
        task.sent -= 10 * 10**9  # ns: as if it had been sent long ago
        os.kill(connection.pid, signal.SIGKILL)
        assert wait_until(lambda: select.select([connection._socket], [], [], 0)[0])
        scheduler._deadlines._check_times(task, connection.transferred)
        assert connection.state is WorkerState.DEAD
        scheduler.manager.kill(connection)  # it has ended: nothing to do
        assert connection.state is WorkerState.DEAD
        assert await asyncio.wait_for(future, 10) == 1
        stats = pool.stats()
        assert (stats.queued, stats.running, stats.killed, stats.restarts) == (0, 0, 0, 1)

    in_pool(test, 1)


def test_a_task_that_was_skipped_at_the_check_of_its_timeout_has_one_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(pool: PipePool) -> None:
        scheduler = pool._scheduler
        assert scheduler is not None
        assume_short(scheduler, calls.sleep)
        [connection] = scheduler.manager.open
        assert connection.pid is not None
        os.kill(connection.pid, signal.SIGSTOP)
        before = asyncio.ensure_future(pool.run(calls.sleep, 0.0))
        future = asyncio.ensure_future(pool.run(calls.sleep, 2.0, timeout=30, queue_timeout=1.5))
        await wait_for(lambda: len(connection.tasks) == 2)
        task = max(connection.tasks.values(), key=lambda each: each.sequence)
        connection.revoke()
        scheduler._functions.get(calls.sleep).estimate = None  # it stays in the queue
        skipped = [(task.sequence, protocol.SKIPPED, None, 0)]
        nothing = memoryview(b"")
        monkeypatch.setattr(
            connection, "read", lambda: scheduler.results_received(connection, skipped, nothing)
        )
        scheduler._deadlines._check_times(task)
        assert pool.stats().queued == 1
        monkeypatch.undo()
        os.kill(connection.pid, signal.SIGCONT)
        await asyncio.gather(before, future)  # the timer of queue_timeout has been stopped
        assert pool.stats().killed == 0

    in_pool(test, 1)


def test_a_queue_timeout_fails_a_task_that_no_worker_took() -> None:
    async def test(pool: PipePool) -> None:
        busy = asyncio.ensure_future(pool.run(calls.sleep, 0.4))
        await wait_for(lambda: pool.stats().running == 1)
        with pytest.raises(TimeoutError, match="no worker was free"):
            await pool.run(calls.sleep, 20, queue_timeout=0.1)
        assert not busy.done()
        await busy
        assert (pool.stats().killed, pool.stats().queued) == (0, 0)

    in_pool(test, 1)


def test_a_queue_timeout_fails_a_task_that_a_stopped_worker_does_not_start() -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        [connection] = pool._scheduler.manager.open
        assert connection.pid is not None
        os.kill(connection.pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"did not start the task within 0\.2 s"):
            await pool.run(calls.add, 1, queue_timeout=0.2)
        assert time.monotonic() - began < 10
        assert await pool.run(calls.add, 1, queue_timeout=10) == 1

    in_pool(test, 1)


@pytest.mark.parametrize("queue_timeout", [0, 0.05])
def test_a_queue_timeout_does_not_limit_a_task_that_has_started(queue_timeout: float) -> None:
    async def test(pool: PipePool) -> None:
        assert pool._scheduler is not None
        [connection] = pool._scheduler.manager.open
        task = asyncio.ensure_future(pool.run(calls.sleep, 3.0, queue_timeout=queue_timeout))
        await asyncio.sleep(0)
        connection._loop.call_later(0.1, os.kill, connection.pid, signal.SIGSTOP)
        connection._loop.call_later(0.6, os.kill, connection.pid, signal.SIGCONT)
        assert await task == connection.pid
        os.kill(connection.pid, signal.SIGSTOP)
        late = asyncio.ensure_future(pool.run(calls.add, 1, queue_timeout=queue_timeout))
        await asyncio.sleep(0.3)  # it is sent, and has some time to start
        os.kill(connection.pid, signal.SIGCONT)
        assert await late == 1
        assert pool.stats().killed == 0

    in_pool(test, 1)


def test_a_cancelled_task_leaves_the_queue_and_kills_only_with_kill_on_cancel() -> None:
    async def test(pool: PipePool) -> None:
        pids = pool.stats().pids
        running = asyncio.ensure_future(pool.run(calls.sleep, 0.2))
        queued = asyncio.ensure_future(pool.run(calls.sleep, 20))
        await wait_for(lambda: pool.stats().queued == 1)
        running.cancel()
        queued.cancel()
        await asyncio.wait([running, queued])
        assert pool.stats().queued == 0
        assert await pool.run(calls.pid) == pids[0]
        deadly = asyncio.ensure_future(pool.run(calls.sleep, 20, kill_on_cancel=True))
        await asyncio.sleep(0.05)
        deadly.cancel()
        assert await pool.run(calls.pid) != pids[0]
        assert pool.stats().killed == 1

    in_pool(test, 1)


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("error", ValueError, "wrong"),
        ("not loadable", RemoteError, "NotLoadable: not loadable 1 2"),
        ("interrupt", TaskExit, "KeyboardInterrupt"),
        ("generator", TaskExit, "GeneratorExit"),
        ("stop", RuntimeError, "StopIteration"),
        ("unpicklable", RemoteError, "ValueError"),
        ("recursion", RecursionError, "maximum recursion depth"),
        ("lambda", (pickle.PicklingError, AttributeError), "lambda"),
        ("unloadable", ValueError, "no number"),
    ],
)
def test_an_error_in_a_task_is_raised_where_the_task_is_awaited(
    kind: str, error: Any, words: str
) -> None:
    async def test(pool: PipePool) -> None:
        pids = pool.stats().pids
        with pytest.raises(error, match=words):
            await pool.run(calls.fail, kind)
        assert await pool.run(calls.pid) == pids[0]

    in_pool(test, 1)


def test_the_traceback_of_a_task_is_the_cause_of_its_exception() -> None:
    async def test(pool: PipePool) -> None:
        with pytest.raises(ValueError) as raised:
            await pool.run(calls.fail, "error")
        assert 'raise ValueError("wrong")' in str(raised.value.__cause__)

    in_pool(test, 1)


def test_sys_exit_in_a_task_raises_task_exit_and_ends_no_process() -> None:
    async def test(pool: PipePool) -> None:
        with pytest.raises(TaskExit) as raised:
            await pool.run(calls.exit_with, 4)
        assert raised.value.code == 4
        assert pool.stats().restarts == 0

    in_pool(test, 1)


def test_arguments_that_do_not_pickle_or_load_fail_their_own_task() -> None:
    async def test(pool: PipePool) -> None:
        others = [asyncio.ensure_future(pool.run(calls.same, n)) for n in range(10)]
        for argument in (lambda: None, calls.FailsWhenLoaded()):
            with pytest.raises((pickle.PicklingError, AttributeError, ValueError)):
                await pool.run(calls.same, argument)
        with pytest.raises((pickle.PicklingError, AttributeError)):
            await pool.run(lambda: None)
        with pytest.raises(BrokenWorker, match="exit code 5"):
            await pool.run(calls.same, calls.KillsWhenLoaded())
        assert await asyncio.gather(*others) == list(range(10))

    in_pool(test, 1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"initializer": calls.fail_to_initialize}, "no database"),
        ({"initializer": calls.exit_in_initializer}, "before it was ready"),
        ({"preload": ["no_such_module"]}, "No module named 'no_such_module'"),
    ],
)
def test_a_pool_that_cannot_start_reports_why(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenWorker, match=words):
        in_pool(lambda _: asyncio.sleep(0), **settings)


def test_the_death_of_a_worker_is_noticed_although_a_child_holds_its_socket() -> None:
    async def test(pool: PipePool) -> None:
        begin = time.monotonic()
        with pytest.raises(BrokenWorker, match="exit code 7"):
            await pool.run(calls.exit_with_child_alive)
        assert time.monotonic() - begin < 2

    in_pool(test, 1)


def test_a_pool_survives_the_end_of_its_fork_server() -> None:
    async def test(pool: PipePool) -> None:
        pids = pool.stats().pids
        fork_server = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(fork_server, signal.SIGKILL)
        await wait_for(lambda: not set(pids) & set(pool.stats().pids))
        assert await pool.run(calls.add, 1) == 1
        assert not any(is_alive(pid) for pid in pids)

    in_pool(test)


def test_programs_that_an_import_or_a_task_starts_hold_no_descriptor_of_the_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a fork server whose socket they hold would not be noticed."""
    script = 'import os\nos.system("sleep 30 & echo $! > {}")\n'.format
    (tmp_path / "starts_a_program.py").write_text(script(tmp_path / "first"))
    monkeypatch.syspath_prepend(tmp_path)

    async def test(pool: PipePool) -> None:
        await pool.run(os.system, f"sleep 30 & echo $! > {tmp_path / 'second'}")
        for name in ("first", "second"):
            program = psutil.Process(int((tmp_path / name).read_text()))
            while program.name() != "sleep":  # it is still the shell
                await asyncio.sleep(0.01)
            held = {each.name for each in Path(f"/proc/{program.pid}/fd").iterdir()}
            program.kill()
            assert held == {"0", "1", "2"}

    in_pool(test, 1, preload=["starts_a_program"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets limits of other processes")
def test_a_fork_server_without_a_free_descriptor_keeps_its_other_workers(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def test(pool: PipePool) -> None:
        lost, kept = pool.stats().pids
        fork_server = psutil.Process(lost).parent()
        assert fork_server is not None
        limits = fork_server.rlimit(psutil.RLIMIT_NOFILE)
        fork_server.rlimit(psutil.RLIMIT_NOFILE, (3, limits[1]))
        os.kill(lost, signal.SIGKILL)
        await wait_for(lambda: "be forked: [Errno 24] Too many open" in capfd.readouterr().err)
        fork_server.rlimit(psutil.RLIMIT_NOFILE, limits)
        await wait_for(lambda: len(pool.stats().pids) == 2)
        assert lost not in pool.stats().pids and kept in pool.stats().pids
        assert fork_server.is_running()

    in_pool(test)


@pytest.mark.parametrize("busy", [False, True])
def test_no_worker_outlives_a_killed_parent(busy: bool) -> None:
    program = f"""
import asyncio
from pipepool import PipePool
from pool_tests import calls
async def main():
    async with PipePool(2) as pool:
        tasks = [asyncio.ensure_future(pool.run(calls.sleep, 60)) for _ in range(2 * {busy})]
        await asyncio.sleep(0.05)
        print(*pool.stats().pids, flush=True)
        await asyncio.sleep(60)
if __name__ == "__main__": asyncio.run(main())
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT) as parent:
        try:
            pids = [int(word) for word in read_line(parent.stdout).split()]
        finally:
            parent.kill()
            parent.wait(LIMIT)
        assert len(pids) == 2
        asyncio.run(wait_for(lambda: not any(is_alive(pid) for pid in pids)))


def test_a_pool_raises_in_a_forked_child() -> None:
    async def test(pool: PipePool) -> None:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                pool.run(calls.pid).send(None)
            except RuntimeError as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        assert wait_until(lambda: os.waitpid(child, os.WNOHANG)[0])
        assert b"belongs to the process" in os.read(reading, 200)
        os.close(reading)
        os.close(writing)

    in_pool(test, 1)


FORK = """
import asyncio, os, sys, time
from pipepool import PipePool

def work(seconds):
    time.sleep(seconds)
    return seconds

def count(number):
    for each in range(number):
        time.sleep(0.05)
        yield each

async def fork(ending):
    await asyncio.sleep(0.4)
    if (child := os.fork()) == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if ending == "exit":
            sys.exit()
        await asyncio.sleep(0.5)
        os._exit(0)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        await asyncio.sleep(0.05)

async def main():
    async with PipePool(3) as pool:
        async def read():
            return [each async for each in pool.stream(count, 30)]
        print(await asyncio.gather(
            pool.run(work, 1.5, kill_on_cancel=True), pool.run(work, 0.6), read(), fork(sys.argv[1])
        ))
        print(await pool.run(work, 0), pool.stats().restarts)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("ending", ["exit", "loop"])
def test_the_loop_of_a_forked_child_does_not_reach_the_pool(ending: str, tmp_path: Path) -> None:
    """Its end cancels tasks and leaves streams and pools; until then it reads what they receive."""
    script = tmp_path / "script.py"
    script.write_text(FORK)
    command = [sys.executable, str(script), ending]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    expected = f"{[1.5, 0.6, list(range(30)), None]}\n0 0\n"
    assert (done.stdout, done.stderr) == (expected, "")


FORK_AT_START = """
import asyncio, os, sys, time
from pipepool import PipePool

async def main():
    pool = PipePool(1)
    starting = asyncio.ensure_future(pool.start())
    await asyncio.sleep(0)
    began = time.monotonic()
    if (child := os.fork()) == 0:
        sys.exit()
    os.waitpid(child, 0)
    print(time.monotonic() - began < 4)
    await starting
    print(await pool.run(abs, -1))
    await pool.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_child_that_is_forked_while_a_pool_starts_ends_at_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(FORK_AT_START)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n1\n", done.stderr
    assert "pipepool" not in done.stderr  # Python 3.13's tracker complains in a fork that ends


def test_close_with_a_grace_kills_tasks_that_do_not_end() -> None:
    async def body() -> None:
        pool = PipePool(1)
        await pool.start()
        tasks = [asyncio.ensure_future(pool.run(calls.sleep, 30)) for _ in range(2)]
        await wait_for(lambda: pool.stats().running == 1)
        await pool.close(0.1)
        for task in tasks:
            with pytest.raises(BrokenWorker, match="closed"):
                await task

    begin = time.monotonic()
    asyncio.run(asyncio.wait_for(body(), LIMIT))
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize(("limit", "tasks"), [(1, 12), (3, 30), (50, 150)])
def test_workers_are_recycled_after_their_number_of_tasks(limit: int, tasks: int) -> None:
    async def test(pool: PipePool) -> None:
        pids = await asyncio.gather(*(pool.run(calls.sleep, 0.0) for _ in range(tasks)))
        assert max(pids.count(pid) for pid in pids) <= limit
        assert len({*pids}) >= tasks / limit
        assert pool.stats().restarts == 0
        await wait_for(lambda: sum(map(is_alive, set(pids))) <= 2)

    in_pool(test, max_tasks_per_child=limit)


def test_a_task_that_a_worker_never_starts_fails_and_the_next_call_works() -> None:
    """Before, it was sent again without a bound, up to 30,000 times a second."""

    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        await pool.run(calls.damage_status)
        with pytest.raises(BrokenWorker, match="100 times a worker received the task") as caught:
            await pool.run(calls.add, 1)
        assert caught.value.pid == pid
        assert await pool.run(calls.add, 1) == 1
        assert pool.stats().pids != (pid,)

    in_pool(test, 1)


def test_a_worker_all_of_whose_calls_fail_after_sys_exit_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(pool: PipePool) -> None:
        [pid] = pool.stats().pids
        for _ in range(9):
            with pytest.raises(OSError):
                await pool.run(calls.open_missing)
        assert pool.stats().suspects == ()  # without a sys.exit() tasks may fail
        with pytest.raises(TaskExit):
            await pool.run(calls.exit_and_break)
        for _ in range(SUSPECT - 1):
            assert pool.stats().suspects == ()
            with pytest.raises(OSError, match="half"):
                await pool.run(calls.fail_if_broken)
        assert pool.stats().suspects == (pid,)
        assert await pool.run(calls.add, 1) == 1
        assert pool.stats().suspects == ()
        [line] = [each.getMessage() for each in caplog.records if each.name == "pipepool"]
        assert f"worker {pid} may be broken" in line
        assert line.endswith("this one with OSError('half initialised')")

    in_pool(test, 1)
