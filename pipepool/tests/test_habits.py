"""Habits of applications and reports about other pools, each beside the standard executor.

Each habit is a script that runs with both pools and must print the same expected text.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from pool_tests.helpers import CREATE, ENVIRONMENT

pytestmark = pytest.mark.server  # starts worker processes

HEAD = """
import asyncio, atexit, contextlib, faulthandler, io, logging, logging.handlers, os, queue
import signal, subprocess, sys, threading, time
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context, set_forkserver_preload, util
from pathlib import Path
from pipepool import PipeExecutor

"""
HEAD += (
    CREATE
    + """
def outcome(executor, function, *args):
    try:
        return executor.submit(function, *args).result(20)
    except Exception as error:
        return type(error).__name__
"""
)


class Habit(NamedTuple):
    """A script, what it prints, and a module that it may preload.

    `standard` is what it prints with the standard executor, where that differs; None: it is not run
    with that.
    """

    script: str
    expected: str
    module: str = ""
    standard: str | None = ""


HABITS = {
    "logging: a QueueHandler with the queue of a manager": Habit(
        """
def initialize(target):
    logging.getLogger().addHandler(logging.handlers.QueueHandler(target))

def work(number):
    logging.getLogger("a.b").error("task %d", number)

if __name__ == "__main__":
    with get_context("forkserver").Manager() as manager:
        target, records = manager.Queue(), []
        listener = logging.handlers.QueueListener(target, logging.NullHandler())
        listener.handle = lambda record: records.append(record.getMessage())
        listener.start()
        with create(2, initializer=initialize, initargs=(target,)) as executor:
            list(executor.map(work, range(500)))
        listener.stop()
        print(len(set(records)), len(records))
""",
        "500 500",
    ),
    "error reports: hooks, and a thread that is flushed at exit": Habit(
        """
def work(number):
    import reports
    reports.send(f"event {number}\\n")
    thread = threading.Thread(target=divmod, args=(number, 0))
    thread.start()
    thread.join()

if __name__ == "__main__":
    with create(2, ["reports"]) as executor:
        list(executor.map(work, range(20)))
    lines = Path("events").read_text().splitlines()
    print(len(set(lines)), lines.count("ZeroDivisionError"), len(lines))
""",
        "21 20 40",
        """
import atexit, os, queue, threading
events, sender = queue.Queue(), None

def run():
    while True:
        with open("events", "a") as file:
            file.write(events.get())
        events.task_done()

def send(event):
    global sender
    if sender != os.getpid():  # in this process there is no thread yet
        sender = os.getpid()
        threading.Thread(target=run, daemon=True).start()
        atexit.register(events.join)
    events.put(event)

threading.excepthook = lambda args: send(f"{args.exc_type.__name__}\\n")
""",
        standard=None,
    ),
    "coverage: data that a finalizer of multiprocessing writes": Habit(
        """
def initialize(folder):
    global seen
    seen = set()
    save = lambda: Path(folder, str(os.getpid())).write_text(" ".join(map(str, seen)))
    util.Finalize(None, save, exitpriority=1000)

def work(number):
    seen.add(number)
    time.sleep(0.01)

if __name__ == "__main__":
    Path("data").mkdir()
    with create(2, initializer=initialize, initargs=("data",)) as executor:
        list(executor.map(work, range(40)))
    print(sum(len(each.read_text().split()) for each in Path("data").iterdir()))
""",
        "40",
    ),
    "databases: connections that are dropped after a fork": Habit(
        """
def work(_):
    import engine
    time.sleep(0.1)
    return engine.connect().owner == os.getpid()

if __name__ == "__main__":
    with create(2, ["engine"]) as executor:
        print(set(executor.map(work, range(6))))
""",
        "{True}",
        """
import os
from multiprocessing import util

class Connection:
    def __init__(self):
        self.owner = os.getpid()

class Engine:
    def __init__(self):
        self.kept = [Connection()]
    def dispose(self):
        self.kept.clear()

engine = Engine()
util.register_after_fork(engine, Engine.dispose)

def connect():
    if not engine.kept:
        engine.kept.append(Connection())
    return engine.kept[0]
""",
    ),
    "HTTP: one kept connection per process": Habit(
        """
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    clients = set()
    def do_GET(self):
        self.clients.add(self.client_address)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.path)))
        self.end_headers()
        self.wfile.write(self.path.encode())
    def log_message(self, *_):
        pass

sessions = {}

def work(port, number):
    session = sessions.setdefault(os.getpid(), HTTPConnection("127.0.0.1", port))
    session.request("GET", f"/{number}")
    time.sleep(0.005)
    return session.getresponse().read() == b"/%d" % number

if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with create(2) as executor:
        list(executor.map(time.sleep, [0.2, 0.2]))
        print(set(executor.map(work, [server.server_port] * 100, range(100))),
              len(Handler.clients) <= 2)
    server.shutdown()
    server.server_close()
""",
        "{True} True",
    ),
    "NumPy: threads of OpenBLAS before the fork and in tasks": Habit(
        """
def work(number):
    import numpy
    matrix = numpy.full((300, 300), float(number))
    return float((matrix @ matrix)[5, 7]) == 300.0 * number * number

if __name__ == "__main__":
    with create(2, ["numbers_of_threads"]) as executor:
        print(set(executor.map(work, range(20))))
""",
        "{True}",
        "import numpy\nmatrix = numpy.ones((500, 500))\nmatrix @ matrix\n",
    ),
    "a task forks, starts a program, processes and a pool": Habit(
        """
def work(number):
    pid = os.fork()
    if pid == 0:
        os._exit(number)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    program = subprocess.run([sys.executable, "-c", f"print({number})"], capture_output=True)
    with get_context("fork").Pool(1) as pool:
        square = pool.apply(pow, (number, 2))
    with get_context("forkserver").Pool(1) as pool:
        cube = pool.apply(pow, (number, 3))
    with ProcessPoolExecutor(1) as nested:
        fourth = nested.submit(pow, number, 4).result()
    return status, int(program.stdout), square, cube, fourth

if __name__ == "__main__":
    with create(2) as executor:
        print(*executor.map(work, [2, 3]))
""",
        "(2, 2, 4, 8, 16) (3, 3, 9, 27, 81)",
    ),
    "gunicorn: an executor of the master, used in children, with a SIGCHLD that reaps all": Habit(
        """
def reap(*_):
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass

def serve(number):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with executor:
        total = sum(executor.map(pow, range(10), [2] * 10))
    os.write(1, b"%d\\n" % total)
    os._exit(0)

if __name__ == "__main__":
    executor = create(2)
    for number in range(2):
        if (pid := os.fork()) == 0:
            serve(number)
        os.waitpid(pid, 0)
    signal.signal(signal.SIGCHLD, reap)
    with executor:
        print(sum(executor.map(pow, range(10), [2] * 10)))
""",
        "285\n285\n285",
        standard=None,  # it hung once in Python 3.11
    ),
    "a notebook: cells that are executed in a namespace of their own": Habit(
        """
if __name__ == "__main__":
    main = sys.modules["__main__"]
    with create(1) as executor:
        cell = "def cell(x):\\n    return x"
        exec(cell, vars(main))  # the workers never see it
        print(outcome(executor, main.cell, 1), outcome(executor, abs, -2))
""",
        "AttributeError 2",
        standard="BrokenProcessPool BrokenProcessPool",
    ),
    # python/cpython#116685
    "arguments that cannot be pickled, and shutdown(cancel_futures=True)": Habit(
        """
if __name__ == "__main__":
    executor = create(1)
    futures = [executor.submit(lambda: 1) for _ in range(10)] + [executor.submit(abs, -1)]
    wait(futures[:10], 10)
    executor.shutdown(wait=True, cancel_futures=True)
    print(all(future.done() for future in futures))
""",
        "True",
        standard=None,
    ),
    "workers that die while large arguments wait for them": Habit(
        """
def die(_):
    os._exit(1)

if __name__ == "__main__":
    executor = create(1)
    futures = [executor.submit(die, bytes(5 << 20)) for _ in range(20)]
    print({type(future.exception(20)).__name__ for future in futures})
    executor.shutdown()
""",
        "{'BrokenWorker'}",
        standard=None,
    ),
    # python/cpython#79492
    "an exception whose pickle cannot be loaded": Habit(
        """
class Wrong(Exception):
    def __init__(self, code, text):
        super().__init__(text)

def work():
    raise Wrong(1, "x")

if __name__ == "__main__":
    with create(1) as executor:
        print(outcome(executor, work), outcome(executor, abs, -2))
""",
        "RemoteError 2",
        standard="BrokenProcessPool BrokenProcessPool",
    ),
    # joblib/loky#180
    "a task that reads stdin": Habit(
        """
def work():
    try:
        input()
    except EOFError:
        return sys.stdin.read(), sys.stdin.fileno() >= 0, sys.__stdin__ is not None

if __name__ == "__main__":
    with create(1) as executor:
        print(executor.submit(work).result())
""",
        "('', True, True)",
        standard=None,
    ),
    # celery/billiard#293
    "many executors leave no semaphore, process or descriptor": Habit(
        """
import psutil

def count():
    children = psutil.Process().children()
    return len(os.listdir("/proc/self/fd")), len(children), threading.active_count()

def round():
    with create(1) as executor:
        executor.submit(abs, 1).result()

if __name__ == "__main__":
    round()
    before = count()
    for _ in range(6):
        round()
    until = time.monotonic() + 5  # the last fork server may end a moment later
    def more():
        return [max(0, now - then) for now, then in zip(count(), before)]

    while any(more()) and time.monotonic() < until:
        time.sleep(0.05)
    print(more())
""",
        "[0, 0, 0]",
    ),
    # dynawo/dyn-grid-compliance-verification#392
    "logging that the main module configures when it is imported": Habit(
        """
logging.basicConfig(filename="log", level="INFO", format="%(message)s")

def work(number):
    logging.info("task %d", number)

if __name__ == "__main__":
    with create(2) as executor:
        list(executor.map(work, range(50)))
    print(Path("log").read_text().count("task"))
""",
        "50",
    ),
    "a task with a timeout of its own by SIGALRM": Habit(
        """
def stop(*_):
    raise TimeoutError

def work(seconds):
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        time.sleep(seconds)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

if __name__ == "__main__":
    with create(1) as executor:
        print([outcome(executor, work, seconds) for seconds in (5, 0, 5, 0)])
""",
        "['TimeoutError', None, 'TimeoutError', None]",
    ),
    "exceptions keep their notes and members": Habit(
        """
def work():
    error = ValueError("x")
    error.add_note("a note")
    error.code = 7
    raise ExceptionGroup("group", [error])

if __name__ == "__main__":
    with create(1) as executor:
        error = executor.submit(work).exception().exceptions[0]
        print(repr(error), error.__notes__, error.code)
""",
        "ValueError('x') ['a note'] 7",
    ),
    "an application that ignores SIGCHLD": Habit(
        """
if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with create(1) as executor:
        code = executor.submit(subprocess.call, ["false"]).result(20)
        print(executor.submit(abs, -1).result(20), code)
""",
        "1 1",
        standard="1 0",  # its workers ignore SIGCHLD too: the exit code is lost
    ),
    "more than 1024 open descriptors": Habit(
        """
import resource
if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    with create(2) as executor:
        print(sum(executor.map(len, [bytes(100_000)] * 20)))
""",
        "2000000",
    ),
    "tasks that run event loops, in an application with a loop": Habit(
        """
async def double(number):
    await asyncio.sleep(0.01)
    return 2 * number

def work(number):
    return asyncio.run(double(number))

async def main():
    with create(2) as executor:
        loop = asyncio.get_running_loop()
        print(await asyncio.gather(*(loop.run_in_executor(executor, work, n) for n in range(5))))

if __name__ == "__main__":
    asyncio.run(main())
""",
        "[0, 2, 4, 6, 8]",
    ),
    "a task that redirects or replaces its output": Habit(
        """
def work(number):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        print(number)
    saved = os.dup(1)
    with open("out", "ab") as file:
        os.dup2(file.fileno(), 1)
    print("in the file", flush=True)
    os.dup2(saved, 1)
    os.close(saved)
    return text.getvalue()

if __name__ == "__main__":
    with create(1) as executor:
        print([*executor.map(work, range(3))], Path("out").read_text().count("in the file"))
""",
        "['0\\n', '1\\n', '2\\n'] 3",
    ),
    "a worker creates shared memory that outlives it": Habit(
        """
from multiprocessing import shared_memory

def work(number):
    memory = shared_memory.SharedMemory(create=True, size=100)
    memory.buf[0] = number
    memory.close()
    return memory.name

if __name__ == "__main__":
    with create(1, max_tasks_per_child=1) as executor:
        names = [executor.submit(work, number).result() for number in range(3)]
    found = [shared_memory.SharedMemory(name) for name in names]
    print([each.buf[0] for each in found])
    for each in found:
        each.close()
        each.unlink()
""",
        "[0, 1, 2]",
    ),
}


def run(command: list[str], folder: Path, text: str = "") -> str:
    """Run a program as a user does: its output is buffered, its modules are beside it."""
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{folder}:{ENVIRONMENT['PYTHONPATH']}"}
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("pool", ["pipe", "standard"])
@pytest.mark.parametrize("name", HABITS)
def test_a_habit(name: str, pool: str, tmp_path: Path) -> None:
    habit = HABITS[name]
    if "numpy" in habit.script:
        pytest.importorskip("numpy")
    expected = habit.expected if pool == "pipe" else habit.standard
    if expected is None:
        pytest.skip("this habit is not run with the standard executor")
    if habit.module:
        preloaded = habit.script.partition('["')[2].partition('"')[0]
        (tmp_path / f"{preloaded}.py").write_text(habit.module)
    (tmp_path / "script.py").write_text(HEAD + habit.script)
    printed = run([sys.executable, "script.py", pool], tmp_path)
    assert printed == (expected or habit.expected)


@pytest.mark.parametrize("pool", ["pipe", "standard"])
def test_a_zip_application(pool: str, tmp_path: Path) -> None:
    script = """
import tasks
if __name__ == "__main__":
    with create(2) as executor:
        print(*executor.map(tasks.double, range(3)))
"""
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as file:
        file.writestr("__main__.py", HEAD + script)
        file.writestr("tasks.py", "def double(n):\n    return 2 * n\n")
    assert run([sys.executable, "app.pyz", pool], tmp_path) == "0 2 4"


@pytest.mark.parametrize("pool", ["pipe", "standard"])
def test_a_package_that_is_run_with_m(pool: str, tmp_path: Path) -> None:
    script = """
from . import tasks
def triple(n):
    return 3 * n
if __name__ == "__main__":
    with create(2) as executor:
        print(*executor.map(tasks.double, range(3)), outcome(executor, triple, 1))
"""
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").touch()
    (tmp_path / "package/cli.py").write_text(HEAD + script)
    (tmp_path / "package/tasks.py").write_text("def double(n):\n    return 2 * n\n")
    assert run([sys.executable, "-m", "package.cli", pool], tmp_path) == "0 2 4 3"


def test_a_function_of_the_interactive_prompt_fails_alone(tmp_path: Path) -> None:
    """The standard executor is broken by it."""
    lines = """
from pipepool import PipeExecutor
executor = PipeExecutor(1)
def typed(): return 1

print(type(executor.submit(typed).exception(20)).__name__, executor.submit(abs, -2).result(20))
executor.shutdown()
"""
    assert run([sys.executable, "-i", "-q"], tmp_path, lines) == "AttributeError 2"


@pytest.mark.parametrize("delay", [0.02, 0.06, 0.12, 0.25])
def test_ctrl_c_in_the_middle_of_the_start_leaves_no_process(delay: float, tmp_path: Path) -> None:
    script = """
if __name__ == "__main__":
    print("starts", flush=True)
    try:
        with create(2) as executor:
            print(executor.submit(abs, -1).result(), flush=True)
            time.sleep(5)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    (tmp_path / "script.py").write_text(HEAD + script)
    with subprocess.Popen(
        [sys.executable, "script.py", "pipe"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out.split()[-1:], err) == (0, ["interrupted"], "")
    assert psutil.wait_procs(children, timeout=10)[1] == []
