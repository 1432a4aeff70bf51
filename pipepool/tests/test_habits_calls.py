"""What applications do with executors and futures, each beside the standard executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool_tests.habits import POOLS, Habit, check

pytestmark = pytest.mark.server  # starts worker processes

HABITS = {
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
    # https://github.com/python/cpython/issues/94440
    "calls that are cancelled at once, and a shutdown": Habit(
        """
if __name__ == "__main__":
    for number in (1, 2, 5):
        executor = create(1)
        executor.submit(int).result()
        futures = [executor.submit(int) for _ in range(number)]
        for future in futures:
            future.cancel()
        executor.shutdown()
        print(all(future.done() for future in futures))
""",
        "True\nTrue\nTrue",
        standard=None,  # not run: its own end is not in time on a busy machine
    ),
    # https://github.com/python/cpython/issues/136655
    "as_completed, and calls that a shutdown cancels meanwhile": Habit(
        """
from concurrent.futures import as_completed

def work(number):
    time.sleep(0.02)
    if number == 2:
        raise ValueError(number)

if __name__ == "__main__":
    with create(2) as executor:
        futures = [executor.submit(work, number) for number in range(40)]
        cancelled = 0
        for future in as_completed(futures, timeout=20):
            if future.cancelled():
                cancelled += 1
            elif future.exception():
                executor.shutdown(wait=False, cancel_futures=True)
        print(cancelled > 0, all(future.done() for future in futures))
""",
        "True True",
        standard=None,  # as_completed never ends
    ),
    # https://github.com/python/cpython/issues/131598
    "a done callback that shuts down the executor": Habit(
        """
if __name__ == "__main__":
    executor, has_ended, errors = create(2), threading.Event(), []

    def end(_):
        try:
            executor.shutdown()
        except RuntimeError as error:
            errors.append(str(error))
        has_ended.set()

    future = executor.submit(time.sleep, 0.1)
    future.add_done_callback(end)
    print(has_ended.wait(20), errors)
    executor.shutdown()
""",
        "True []",
        standard="True ['cannot join current thread']",
    ),
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", HABITS)
def test_a_habit(name: str, pool: str, tmp_path: Path) -> None:
    check(HABITS[name], pool, tmp_path)
