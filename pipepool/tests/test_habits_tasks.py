"""What tasks do, return and raise, each beside the standard executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool_tests.habits import POOLS, Habit, check

pytestmark = pytest.mark.server  # starts worker processes

HABITS = {
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
    # https://github.com/python/cpython/issues/112182
    "a task that raises StopIteration, awaited by the application": Habit(
        """
def work():
    return next(iter([]))

async def main():
    loop = asyncio.get_running_loop()
    with create(1) as executor:
        try:
            await asyncio.wait_for(loop.run_in_executor(executor, work), 20)
        except Exception as error:
            print(type(error).__name__)
        print(await loop.run_in_executor(executor, abs, -2))

if __name__ == "__main__":
    asyncio.run(main())
""",
        "RuntimeError\n2",
        standard=None,  # it is never done in Python 3.11
    ),
    # https://github.com/python/cpython/issues/79896
    "arguments, results and errors are freed when the task has ended": Habit(
        """
class Value:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        if __name__ != "__main__":  # in a worker
            Path(self.name).touch()

class Result(Value):
    pass

def work(value):
    return Result("result")

def fail(value):
    raise ValueError(value)

def is_freed(name):
    until = time.monotonic() + 5
    while not Path(name).exists() and time.monotonic() < until:
        time.sleep(0.01)
    return Path(name).exists()

if __name__ == "__main__":
    with create(1) as executor:
        executor.submit(work, Value("argument")).result()
        print(is_freed("argument"), is_freed("result"))
        executor.submit(fail, Value("error")).exception()
        print(is_freed("error"))
""",
        "True True\nTrue",
        standard="True True\nFalse",  # it keeps the last error
    ),
    # https://github.com/sybrenjansen/mpire/issues/32
    "large results of workers that are replaced after each task": Habit(
        """
if __name__ == "__main__":
    with create(3, max_tasks_per_child=1) as executor:
        print({len(data) for data in executor.map(os.urandom, [1 << 20] * 9)})
""",
        "{1048576}",
        standard=None,  # not run: python/cpython#115634 reports a hang
    ),
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", HABITS)
def test_a_habit(name: str, pool: str, tmp_path: Path) -> None:
    check(HABITS[name], pool, tmp_path)
