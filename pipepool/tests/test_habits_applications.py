"""How applications start and what they change, each beside the standard executor."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import psutil
import pytest

from pool_tests.habits import HEAD, POOLS, Habit, check, run
from pool_tests.helpers import ENVIRONMENT, SOURCE

pytestmark = pytest.mark.server  # starts worker processes

HABITS = {
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
    # https://github.com/Kludex/uvicorn/issues/548
    "uvicorn: signal handlers of the application's loop": Habit(
        """
def work():
    handlers = [signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)]
    return handlers == [signal.SIG_DFL] * 2, signal.set_wakeup_fd(-1)

async def main():
    received = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, received.append, number)
    with create(1) as executor:
        print(await loop.run_in_executor(executor, work))
        with contextlib.suppress(Exception):  # it ends the worker
            await loop.run_in_executor(executor, signal.raise_signal, signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR2)
        while not received:
            await asyncio.sleep(0.01)
        print(*received)

if __name__ == "__main__":
    asyncio.run(main())
""",
        "(True, -1)\n12",
    ),
    # https://github.com/gevent/gevent/issues/936
    "gevent: it patches the standard library after the executor was created": Habit(
        """
def work(number):
    time.sleep(0.05)
    return 2 * number

if __name__ == "__main__":
    with create(2) as executor:
        import gevent.monkey
        gevent.monkey.patch_all()
        ticks = []
        gevent.spawn(lambda: [ticks.append(gevent.sleep(0.01)) for _ in range(10)])
        calls = [gevent.spawn(lambda n=n: executor.submit(work, n).result(20)) for n in range(6)]
        print([call.get() for call in calls], len(ticks) > 0)
""",
        "[0, 2, 4, 6, 8, 10] True",
        standard=None,  # it hangs, as gevent documents
    ),
    # https://github.com/unbit/uwsgi/issues/2463
    "uWSGI: sys.executable is another program": Habit(
        """
from multiprocessing import set_executable

if __name__ == "__main__":
    set_executable(sys.executable)
    sys.executable = "/bin/false"
    with create(1) as executor:
        print(outcome(executor, abs, -2))
""",
        "2",
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
    # https://github.com/joblib/joblib/issues/1591
    "options of the interpreter: warnings that are errors, no assertions": Habit(
        """
def work():
    import warnings
    try:
        warnings.warn("a warning", UserWarning)
    except UserWarning as error:
        return str(error), __debug__, sys.flags.utf8_mode

if __name__ == "__main__":
    with create(1) as executor:
        print(outcome(executor, work))
""",
        "('a warning', False, 1)",
        options=("-O", "-W", "error::UserWarning", "-X", "utf8"),
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
    # https://github.com/ray-project/ray/issues/15204
    "an application that changes its folder before the first call": Habit(
        """
def work():
    return Path.cwd(), Path("data").read_text()

if __name__ == "__main__":
    Path("elsewhere").mkdir()
    Path("elsewhere/data").write_text("found")
    os.chdir("elsewhere")
    with create(1) as executor:
        folder, text = executor.submit(work).result()
    print(folder == Path.cwd(), text)
""",
        "True found",
    ),
    # https://github.com/spack/spack/pull/31480
    "an application whose folder was deleted": Habit(
        """
if __name__ == "__main__":
    Path("deleted").mkdir()
    os.chdir("deleted")
    Path("../deleted").rmdir()
    try:
        with create(1) as executor:
            executor.submit(abs, -2).result()
    except Exception as error:
        print(error)
""",
        "no worker could be started: the current folder was deleted: change to another one before"
        " the pool starts",
        standard="[Errno 2] No such file or directory",
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
    # https://github.com/pgjones/hypercorn/issues/345
    "a listening socket that children inherit is closed, and its port used again": Habit(
        """
import socket

if __name__ == "__main__":
    server = socket.create_server(("127.0.0.1", 0))
    server.set_inheritable(True)
    with create(1) as executor:
        executor.submit(abs, 1).result()
        address = server.getsockname()
        server.close()
        with socket.socket() as again:
            again.bind(address)
            again.listen()
            print("bound")
""",
        "bound",
    ),
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", HABITS)
def test_a_habit(name: str, pool: str, tmp_path: Path) -> None:
    check(HABITS[name], pool, tmp_path)


@pytest.mark.parametrize("pool", POOLS)
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


def test_a_zip_application_that_contains_pipepool(tmp_path: Path) -> None:
    script = """
import pipepool, tasks
if __name__ == "__main__":
    with create(1) as executor:
        print("app.pyz" in pipepool.__file__, executor.submit(tasks.find_pool).result())
"""
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as file:
        file.writestr("__main__.py", HEAD + script)
        file.writestr(
            "tasks.py", "import pipepool\ndef find_pool():\n    return pipepool.__file__\n"
        )
        for path in (SOURCE / "pipepool").rglob("*.py"):
            file.write(path, path.relative_to(SOURCE))
    printed = run([sys.executable, "app.pyz", "pipe"], tmp_path)
    assert printed == f"True {tmp_path / 'app.pyz' / 'pipepool' / '__init__.py'}"


FROZEN = """
import multiprocessing

sys.frozen = True
multiprocessing.process.ORIGINAL_DIR = None
multiprocessing.set_executable("./program")

def freeze_support():
    if "-c" in sys.argv:
        code = sys.argv[sys.argv.index("-c") + 1]
        for name in ("resource_tracker", "forkserver"):
            if code.startswith(f"from multiprocessing.{name} import main"):
                exec(code, {})
                sys.exit()
        sys.exit("the program runs itself again")

def double(number):
    return 2 * number

if __name__ == "__main__":
    freeze_support()
    with create(1) as executor:
        print(executor.submit(double, 21).result())
"""


@pytest.mark.parametrize("pool", POOLS)
def test_a_frozen_application(pool: str, tmp_path: Path) -> None:
    """As PyInstaller's: the interpreter is the program, which runs code of multiprocessing only."""
    (tmp_path / "script.py").write_text(HEAD + FROZEN)
    (tmp_path / "program").write_text(f'#!/bin/sh\nexec {sys.executable} script.py {pool} "$@"\n')
    (tmp_path / "program").chmod(0o755)
    assert run(["./program"], tmp_path) == "42"


@pytest.mark.parametrize("pool", POOLS)
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
