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
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", HABITS)
def test_a_habit(name: str, pool: str, tmp_path: Path) -> None:
    check(HABITS[name], pool, tmp_path)
