"""A pool under interpreter and system settings that applications use."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pipepool import BrokenWorker, PipePool
from pool_tests import calls
from pool_tests.helpers import ENVIRONMENT, FREE_THREADED, in_pool, read_line, wait_for

pytestmark = pytest.mark.server  # starts worker processes

PROGRAM = """
import asyncio, sys
from pipepool import BrokenWorker, PipeExecutor, PipePool
from pool_tests import calls

async def main():
    async with PipePool(2, max_tasks_per_child=50, preload=["pool_tests.calls"]) as pool:
        assert await asyncio.gather(*(pool.run(calls.add, n, 1) for n in range(300))) == [
            n + 1 for n in range(300)
        ]
        assert len(await pool.run(calls.data, 2_000_000)) == 2_000_000
        five = await pool.run(calls.add, 5, queue_timeout=0)
        assert five == 5
        twice = await asyncio.gather(*(pool.run(calls.add, n, queue_timeout=0) for n in range(2)))
        assert twice == [0, 1]
        try:
            await pool.run(calls.exit_process, 3)
        except BrokenWorker:
            pass
        try:
            await pool.run(calls.sleep, 30, timeout=0.1)
        except TimeoutError:
            pass
        task = asyncio.ensure_future(pool.run(calls.sleep, 30, kill_on_cancel=True))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        assert [x async for x in pool.stream(calls.count, 40)] == list(range(40))

if __name__ == "__main__":
    if "uvloop" in sys.argv:
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())
    with PipeExecutor(1) as executor:
        assert executor.submit(calls.add, 1).result(20) == 1
    print("done")
"""
DEATH = "worker "  # the line that is logged for the worker that leaves


@pytest.mark.parametrize(
    ("flags", "variables", "words"),
    [
        (["-W", "error"], {}, []),
        (["-X", "dev"], {}, []),
        ([], {"PYTHONASYNCIODEBUG": "1"}, []),
        (["-W", "error"], {}, ["uvloop"]),
        (["-O"], {"PYTHONHASHSEED": "1"}, []),
    ],
    ids=["warnings are errors", "development mode", "debug mode of asyncio", "uvloop", "optimized"],
)
def test_a_pool_works_under_any_settings_of_the_interpreter(
    flags: list[str], variables: dict[str, str], words: list[str], tmp_path: Path
) -> None:
    if words:
        pytest.importorskip("uvloop", reason="uvloop is not installed: make test-all")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, *flags, "program.py", *words],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=tmp_path,
        env=ENVIRONMENT | variables,
    )
    expected = (DEATH, "Executing ")  # the latter is of asyncio's debug mode
    errors = [line for line in done.stderr.splitlines() if not line.startswith(expected)]
    assert (done.returncode, done.stdout, errors) == (0, "done\n", [])


SERVICE = """
import asyncio, sys
from pipepool import PipePool
from pool_tests import calls

async def main():
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(int(sys.argv[1]), stopped.set)
    async with PipePool(2) as pool:
        tasks = [asyncio.ensure_future(pool.run(calls.sleep, 0.5)) for _ in range(4)]
        while pool.stats().running < 2:
            await asyncio.sleep(0.01)
        print("running", flush=True)
        await stopped.wait()
        await asyncio.gather(*tasks)
        print("drained", flush=True)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_the_whole_group_lets_an_application_drain(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    with subprocess.Popen(
        [sys.executable, "service.py", str(int(number))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=ENVIRONMENT,
        start_new_session=True,
    ) as service:
        try:
            assert read_line(service.stdout) == "running\n"
            os.killpg(service.pid, number)
            out, err = service.communicate(timeout=20)
        finally:
            service.kill()
    assert (service.returncode, out, err) == (0, b"drained\n", b"")


def test_programs_of_tasks_ignore_the_signals_that_the_application_was_started_to_ignore(
    tmp_path: Path,
) -> None:
    """As those that the application starts itself, for example under nohup."""
    (tmp_path / "script.py").write_text(IGNORED)
    command = ["sh", "-c", 'trap "" HUP INT; exec "$0" script.py', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("True\n", "")


IGNORED = """
import subprocess
from pipepool import PipeExecutor
def ignored():
    return subprocess.check_output(["grep", "SigIgn", "/proc/self/status"])
if __name__ == "__main__":
    with PipeExecutor(1) as executor:
        print(executor.submit(ignored).result() == ignored())
"""


@pytest.mark.skipif(FREE_THREADED, reason="a free-threaded Python reserves memory in advance")
def test_a_worker_without_memory_fails_its_task_alone() -> None:
    async def test(pool: PipePool) -> None:
        with pytest.raises(MemoryError):
            await pool.run(calls.data, 3 << 30)
        with pytest.raises((MemoryError, BrokenWorker)):  # its own buffer may not fit
            await pool.run(calls.length, bytes(400 << 20))
        assert await pool.run(calls.add, 1) == 1

    in_pool(test, 1, initializer=calls.limit_memory, initargs=(600 << 20,))


def run_program(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    return subprocess.run(
        [sys.executable, "program.py"],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=folder,
        env=ENVIRONMENT,
    )


@pytest.mark.skipif(FREE_THREADED, reason="a free-threaded Python reserves memory in advance")
def test_arguments_that_the_application_has_no_memory_to_copy_fail_their_task_alone(
    tmp_path: Path,
) -> None:
    program = """
import asyncio, pickle, resource
from pipepool import PipePool
from pool_tests import calls

async def main():
    async with PipePool(1) as pool:
        pid = await pool.run(calls.pid)
        for _ in range(20):
            await pool.run(calls.same, 0)  # a short function: its calls share frames
        large = pickle.PickleBuffer(bytearray(300 << 20))  # does not fit into the shared memory
        in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + (100 << 20), -1))
        tasks = [pool.run(calls.same, each) for each in (1, large, 3)]
        print(await asyncio.gather(*tasks, return_exceptions=True))
        print(pid == await asyncio.wait_for(pool.run(calls.pid), 20), pool.stats().failed)

if __name__ == "__main__":
    asyncio.run(main())
"""
    done = run_program(program, tmp_path)
    text = "[1, MemoryError('the arguments do not fit into the memory'), 3]\nTrue 1\n"
    assert (done.stdout, done.stderr) == (text, "")


def test_the_output_of_an_import_is_printed_once(tmp_path: Path) -> None:
    (tmp_path / "talks.py").write_text("print('imported')\n")
    program = """
import asyncio
from pipepool import PipePool
from pool_tests import calls

async def main():
    async with PipePool(3, preload=["talks"]) as pool:
        await pool.run(calls.add, 1)

if __name__ == "__main__":
    asyncio.run(main())
"""
    done = run_program(program, tmp_path)
    assert (done.stdout, done.stderr) == ("imported\n", "")


@pytest.mark.slow
def test_a_result_that_the_application_has_no_memory_for_fails_its_task_alone(
    tmp_path: Path,
) -> None:
    program = """
import asyncio, resource
from pipepool import PipePool
from pool_tests import calls

async def main():
    async with PipePool(1) as pool:
        await pool.run(calls.add, 1)
        in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + (300 << 20), -1))
        try:
            await asyncio.wait_for(pool.run(calls.data, 600 << 20), 20)
        except MemoryError as error:
            print("MemoryError")
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        print(await asyncio.wait_for(pool.run(calls.add, 2), 20))

if __name__ == "__main__":
    asyncio.run(main())
"""
    done = run_program(program, tmp_path)
    assert (done.stdout, done.stderr) == ("MemoryError\n2\n", "")


SIGPIPE = """
import asyncio, os, select, signal
from pipepool import PipePool
from pool_tests import calls

signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as command-line tools do

async def main():
    async with PipePool(2) as pool:
        await pool.run(calls.add, 1)
        for connection in pool._scheduler.manager.open:
            os.kill(connection.pid, signal.SIGKILL)
            select.select([connection._socket], [], [])  # it has ended; the loop knows nothing
        print(await pool.run(calls.add, 2))
        os.kill(pool._scheduler.manager._fork_server._process.pid, signal.SIGKILL)
        pool._scheduler.manager._fork_server._process.wait()
        pool._scheduler.manager._fork_server.kill(0)
        print(await pool.run(calls.add, 3))

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_an_application_with_the_default_action_of_sigpipe_survives_its_workers(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(SIGPIPE)
    done = subprocess.run(
        [sys.executable, "program.py"],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    assert (done.returncode, done.stdout) == (0, "2\n3\n")


def test_the_signal_mask_of_the_application_does_not_change_a_pool() -> None:
    async def test(pool: PipePool) -> None:
        assert await pool.run(calls.blocked_signals) == []
        with pytest.raises(BrokenWorker, match="exit code 3"):
            await pool.run(calls.exit_process, 3)

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGURG])
    try:
        in_pool(test, 1)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.mark.parametrize("where", ["application", "workers"])
def test_a_default_timeout_of_sockets_does_not_change_a_pool(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "sets_the_timeout.py"
    module.write_text("import socket; socket.setdefaulttimeout(0.01)")
    monkeypatch.syspath_prepend(tmp_path)

    async def test(pool: PipePool) -> None:
        found = []
        async for item in pool.stream(calls.count, 20, limit=2):
            found.append(item)
            if item == 5:
                await asyncio.sleep(0.1)  # the worker waits for its consumer
        assert found == [*range(20)]
        large = asyncio.ensure_future(pool.run(calls.data, 8 << 20))
        await asyncio.sleep(0.02)
        time.sleep(0.1)  # the loop is busy while the worker sends
        assert len(await large) == 8 << 20

    preload = [module.stem] if where == "workers" else []
    if where == "application":
        socket.setdefaulttimeout(0.01)
    try:
        in_pool(test, 1, shared_memory=4096, preload=preload)
    finally:
        socket.setdefaulttimeout(None)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_bursts_of_large_values_leave_the_memory_as_it_was() -> None:
    async def test(pool: PipePool) -> None:
        own = psutil.Process()
        size = 128 << 20

        async def burst() -> int:
            for _ in range(3):
                assert len(await pool.run(calls.same, bytes(size))) == size
            await asyncio.gather(*(pool.run(calls.add, n) for n in range(50)))
            return own.memory_info().rss + sum(psutil.Process(p).memory_info().rss for p in pids)

        pids = pool.stats().pids
        await burst()
        second, last = await burst(), 0
        for _ in range(4):
            last = await burst()
        assert last < second + (64 << 20)

    async def body() -> None:
        async with PipePool(2) as pool:
            await test(pool)

    asyncio.run(asyncio.wait_for(body(), 100))


@pytest.mark.slow
def test_a_pool_works_after_many_crashes_while_workers_are_recycled() -> None:
    async def test(pool: PipePool) -> None:
        async def client(number: int) -> int:
            lost = 0
            for each in range(30):
                try:
                    await pool.run(calls.exit_process if each % 10 == 3 else calls.add, number)
                except BrokenWorker:
                    lost += 1
            return lost

        lost = await asyncio.gather(*(client(n) for n in range(6)))
        assert sum(lost) >= 18
        assert [await pool.run(calls.add, n) for n in range(10)] == [*range(10)]
        await wait_for(lambda: len(pool.stats().pids) in {2, 3, 4})
        stats = pool.stats()
        assert (stats.queued, stats.running) == (0, 0)
        assert stats.restarts >= 18

    in_pool(test, 2, max_tasks_per_child=3, preload=["pool_tests.calls"])


REFUSED = """
import asyncio, os
from pipepool import PipePool

def refuse(*_):
    raise PermissionError(1, "Operation not permitted")

async def main():
    os.memfd_create = refuse  # as in a sandbox
    async with PipePool(1) as pool:
        print(len(await pool.run(bytes, 1 << 20)), await pool.run(len, bytes(1 << 20)))

if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(), 20))
"""


def test_a_sandbox_that_refuses_memfd_create_is_no_obstacle() -> None:
    command = [sys.executable, "-c", REFUSED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=ENVIRONMENT)
    assert done.stdout == "1048576 1048576\n", done.stderr


LIMITED = """
import asyncio, resource, sys
from pipepool import BrokenWorker, PipePool

async def main():
    limit = getattr(resource, sys.argv[1])
    resource.setrlimit(limit, (int(sys.argv[2]), resource.RLIM_INFINITY))
    try:
        async with PipePool(1) as pool:
            pass
    except BrokenWorker as error:
        print(error)

if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(), 20))
"""


@pytest.mark.parametrize(
    ("limit", "value"), [("RLIMIT_FSIZE", 1 << 20), ("RLIMIT_AS", (1 << 20) * 120)]
)
def test_a_limit_that_prevents_the_start_names_the_parameter(limit: str, value: int) -> None:
    command = [sys.executable, "-c", LIMITED, limit, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=ENVIRONMENT)
    assert "use a smaller shared_memory=" in done.stdout + done.stderr
    assert "67108864 bytes" in done.stdout + done.stderr
