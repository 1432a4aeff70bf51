"""The life of a worker process, from its fork to its exit, beside the standard executor's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pool_tests.helpers import CREATE, ENVIRONMENT, LIMIT, SOURCE

pytestmark = pytest.mark.server  # starts worker processes

HEAD = """
import faulthandler, logging, logging.handlers, os, sys, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context, process, set_forkserver_preload
from pathlib import Path
from pipepool import PipeExecutor

"""
HEAD += CREATE


def run_script(folder: Path, pool: str, body: str, *flags: str, **variables: str) -> str:
    """Run a script as a program of its own, with `pool` as its argument; return what it prints."""
    script = folder / "script.py"
    script.write_text(HEAD + body)
    paths = f"{folder}:{ENVIRONMENT['PYTHONPATH']}"
    environment = {**ENVIRONMENT, **variables, "PYTHONPATH": paths}
    environment.pop("PYTHONUNBUFFERED", None)
    command = [sys.executable, *flags, str(script), pool]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


both = pytest.mark.parametrize("pool", ["pipe", "standard"])

PRELOADED_PROXY = """
import os
from multiprocessing.managers import BaseManager

class Manager(BaseManager):
    pass

Manager.register("Echo")
manager = Manager(os.environ["ADDRESS"], b"key")
manager.connect()
echo = manager.Echo()
echo.get(0)  # from now on it has a connection
"""
SHARED_PROXY = """
from multiprocessing.managers import BaseManager

class Manager(BaseManager):
    pass

class Echo:
    def get(self, number):
        return number

Manager.register("Echo", Echo)

def ask(number):
    import preloaded
    try:
        return {preloaded.echo.get(number) for _ in range(200)}
    except Exception as error:
        return repr(error)

if __name__ == "__main__":
    with Manager(authkey=b"key", ctx=get_context("fork")) as manager:
        os.environ["ADDRESS"] = manager.address
        with create(2, ["preloaded"]) as executor:
            print(*(executor.map(ask, range(8))))
"""


@both
def test_workers_do_not_share_the_connection_of_a_preloaded_proxy(
    pool: str, tmp_path: Path
) -> None:
    (tmp_path / "preloaded.py").write_text(PRELOADED_PROXY)
    expected = " ".join(str({n}) for n in range(8)) + "\n"
    assert run_script(tmp_path, pool, SHARED_PROXY) == expected


REGISTERED = """
import os, threading
from multiprocessing import process, util

class Resource:
    pid = 0

def reset(resource):
    resource.pid = os.getpid()

resource = Resource()
util.register_after_fork(resource, reset)

class Child:  # as a process that an import started and that must outlive the workers
    daemon = True
    was_ended = False
    _popen = None
    def __init__(self):
        self._popen = self
        self.name = "child"
    def poll(self):
        return None
    def terminate(self):
        os.write(2, b"ended by a worker")
    def join(self):
        pass

process._children.add(Child())
"""
IDENTITY = """
def describe(_):
    import preloaded
    current = process.current_process()
    time.sleep(0.2)
    return (
        preloaded.resource.pid == os.getpid(),
        threading.main_thread().native_id == os.getpid(),
        current.pid == os.getpid(), current.daemon, len(current._identity),
        process.active_children(), process.parent_process().pid == os.getppid(),
    ), current._identity

if __name__ == "__main__":
    with create(2, ["preloaded"]) as executor:
        facts, identities = zip(*executor.map(describe, range(4)))
        print(set(map(str, facts)), len(set(identities)))
"""


def test_a_worker_is_a_process_of_multiprocessing(tmp_path: Path) -> None:
    """It has a number and no children, and ran what modules registered for a fork."""
    (tmp_path / "preloaded.py").write_text(REGISTERED)
    printed = run_script(tmp_path, "pipe", IDENTITY)
    assert printed == f"{ {str((True, True, True, False, 1, [], False))} } 2\n"


LOGGING = """
class Slow(logging.Handler):
    count = 0
    def emit(self, record):
        time.sleep(0.0005)
        self.count += 1

def initialize(queue):
    logging.getLogger("worker").addHandler(logging.handlers.QueueHandler(queue))

def log(number):
    for each in range(number):
        logging.getLogger("worker").error("a record %s %d", "x" * 200, each)

if __name__ == "__main__":
    from pipepool.workers import worker_manager
    worker_manager.RETIRING_TIMEOUT = 0.2  # s; retired workers were killed after it
    queue, handler = get_context("forkserver").Queue(), Slow()
    listener = logging.handlers.QueueListener(queue, handler)
    listener.start()
    with create(1, initializer=initialize, initargs=(queue,), **SETTINGS) as executor:
        executor.submit(log, 2000).result()
    listener.stop()
    print(handler.count)
"""


@both
@pytest.mark.parametrize("settings", ["{}", "{'max_tasks_per_child': 1}"])
def test_records_in_the_queue_of_a_worker_arrive_after_close(
    pool: str, settings: str, tmp_path: Path
) -> None:
    assert run_script(tmp_path, pool, LOGGING.replace("SETTINGS", settings)) == "2000\n"


THREADS = """
def write(path, word, seconds):
    time.sleep(seconds)
    with open(path, "a") as file:
        file.write(word + "\\n")

def start(path):
    global threads
    threading.Thread(target=write, args=(path, "thread", 0.6)).start()
    threads = ThreadPoolExecutor(1)
    for _ in range(3):
        threads.submit(write, path, "pending", 0.3)

if __name__ == "__main__":
    from pipepool.workers import worker_manager
    worker_manager.RETIRING_TIMEOUT = 0.2
    with create(1, **SETTINGS) as executor:
        executor.submit(start, "PATH").result()
    print(*sorted(Path("PATH").read_text().split()))
"""


@both
@pytest.mark.parametrize("settings", ["{}", "{'max_tasks_per_child': 1}"])
def test_threads_of_tasks_end_before_their_worker(pool: str, settings: str, tmp_path: Path) -> None:
    body = THREADS.replace("SETTINGS", settings).replace("PATH", str(tmp_path / "words"))
    assert run_script(tmp_path, pool, body) == "pending pending pending thread\n"


AT_EXIT = """
import atexit
def register(path):
    atexit.register(Path(path).write_text, "ran")

if __name__ == "__main__":
    with create(1) as executor:
        executor.submit(register, "PATH").result()
    print(Path("PATH").exists())
"""


def test_an_exit_handler_of_a_task_runs(tmp_path: Path) -> None:
    """The standard executor runs it since Python 3.13."""
    assert run_script(tmp_path, "pipe", AT_EXIT.replace("PATH", f"{tmp_path}/f")) == "True\n"


SHADOWED = """
import sys
sys.path.append(SITE)
from pipepool import PipeExecutor
if __name__ == "__main__":
    with PipeExecutor(1) as executor:
        print(executor.submit(divmod, 17, 5).result(20))
"""


@pytest.mark.parametrize("place", ["beside the package", "in the current folder"])
def test_modules_named_like_standard_ones_do_not_prevent_the_start(
    place: str, tmp_path: Path
) -> None:
    site, current = tmp_path / "site-packages", tmp_path / "current"
    site.mkdir()
    current.mkdir()
    shutil.copytree(SOURCE / "pipepool", site / "pipepool")
    for name in ("enum", "typing", "selectors", "contextvars", "socket", "struct", "copyreg"):
        folder = site if place == "beside the package" else current
        (folder / f"{name}.py").write_text("raise ImportError('a backport')")
    (tmp_path / "script.py").write_text(SHADOWED.replace("SITE", repr(str(site))))
    environment = {k: v for k, v in ENVIRONMENT.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-S", str(tmp_path / "script.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, env=environment, cwd=current
    )
    assert (done.stdout, done.returncode) == ("(3, 2)\n", 0), done.stderr


CLOSED = """
def complain():
    try:
        return os.write(2, b"\\xff" * 64)  # as C code does
    except OSError as error:
        return error.strerror

def number():
    return 3

if __name__ == "__main__":
    with create(1) as executor:
        futures = [executor.submit(complain), executor.submit(number), executor.submit(complain)]
        outcomes = [future.result(12) for future in futures]
        is_program_fine = os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "exit 0") == 0
        Path("PATH").write_text(f"{outcomes[1]} {outcomes[0] == outcomes[2]} {is_program_fine}")
"""


@both
@pytest.mark.parametrize("closed", [">&- 2>&-", "2>&-", "<&- >&- 2>&-"])
def test_what_c_code_writes_to_a_closed_stderr_harms_no_pool(
    pool: str, closed: str, tmp_path: Path
) -> None:
    script, found = tmp_path / "script.py", tmp_path / "found"
    script.write_text(HEAD + CLOSED.replace("PATH", str(found)))
    command = f'exec "{sys.executable}" "{script}" {pool} {closed}'
    subprocess.run(["sh", "-c", command], timeout=30, env=ENVIRONMENT)
    assert found.exists() and found.read_text() == "3 True True"


OUTPUT = """
import asyncio, io
from pipepool import PipePool

def say(word, how):
    if how == "print":
        print(word, end="")
    elif how == "buffer":
        sys.stdout.buffer.write(word.encode())
    elif how == "kept":
        kept.write(word)
    elif how == "wrapped":
        wrapped.write(word)
    else:
        sys.stderr.write(word)

def wrap():
    sys.stderr = io.TextIOWrapper(sys.stderr.detach(), encoding="utf-8")

kept = sys.stdout
sys.stdout = wrapped = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")

async def main():
    async with PipePool(1, initializer=wrap) as pool:
        for how in ("print", "buffer", "kept", "wrapped", "error"):
            await pool.run(say, f"<{how}>", how)
        try:
            await pool.run(time.sleep, 20, timeout=0.2)
        except TimeoutError:
            pass

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_what_a_task_printed_is_kept_when_a_later_one_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(HEAD + OUTPUT)
    environment = {k: v for k, v in ENVIRONMENT.items() if k != "PYTHONUNBUFFERED"}
    with (tmp_path / "out").open("w") as out, (tmp_path / "error").open("w") as error:
        subprocess.run(
            [sys.executable, script], stdout=out, stderr=error, timeout=LIMIT, env=environment
        )
    assert (tmp_path / "out").read_text() == "<print><buffer><kept><wrapped>"
    assert (tmp_path / "error").read_text() == "<error>"


GRACE = """
import asyncio
from pipepool import PipePool

def leave_a_thread():
    threading.Thread(target=time.sleep, args=(5,)).start()

async def main(grace):
    pool = PipePool(1)
    await pool.start()
    await pool.run(leave_a_thread)
    [pid] = pool.stats().pids
    began = time.monotonic()
    await pool.close(grace)
    assert not Path(f"/proc/{pid}").exists()
    print(round(time.monotonic() - began, 1))

if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
"""


@pytest.mark.parametrize(("grace", "least", "most"), [("0", 0, 1), ("1.5", 1.5, 3.5)])
def test_a_number_limits_the_time_in_which_workers_end(
    grace: str, least: float, most: float, tmp_path: Path
) -> None:
    assert least <= float(run_script(tmp_path, grace, GRACE)) < most


KILLED = """
def leave_a_thread():
    threading.Thread(target=time.sleep, args=(30,)).start()

if __name__ == "__main__":
    executor = create(1)
    executor.submit(leave_a_thread).result()
    executor.shutdown(wait=False)
    time.sleep(0.5)  # the worker waits for its thread
    began = time.monotonic()
    executor.kill_workers()
    executor.shutdown()
    print(time.monotonic() - began < 5)
"""


def test_kill_workers_ends_workers_that_wait_for_their_threads(tmp_path: Path) -> None:
    assert run_script(tmp_path, "pipe", KILLED) == "True\n"


FORKS = """
import signal

def survivors(in_thread):
    if in_thread:
        with ThreadPoolExecutor(1) as own:
            return own.submit(survivors, False).result()
    children = []
    for _ in range(100):
        child = get_context("fork").Process(target=time.sleep, args=(30,))
        child.start()
        child.terminate()
        children.append(child)
    for child in children:
        child.join(max(0.1, 5 / len(children)))
    alive = [child for child in children if child.is_alive()]
    for child in alive:
        child.kill()
    own = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return len(alive), {signal.SIGINT, signal.SIGTERM} & own

if __name__ == "__main__":
    with create(1) as executor:
        print([executor.submit(survivors, in_thread).result() for in_thread in (False, True)])
"""


@both
def test_a_child_that_a_task_forks_ends_by_an_immediate_sigterm(pool: str, tmp_path: Path) -> None:
    assert run_script(tmp_path, pool, FORKS) == "[(0, set()), (0, set())]\n"
