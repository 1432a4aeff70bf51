"""Tasks that do more than return a result: threads, queues, managers, output, calls of C code.

`python -m pool_tests.side_effects ADDRESS` is the manager. A process that imports this module while
the environment variable MANAGER is that address, such as a fork server, has a proxy that was used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import threading
import time
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

from pool_tests.calls import note

KEY = b"key"
RECORDS = 300  # that a task puts into the queue
RECORD = "x" * 1000  # all of them are more than a pipe holds
ASKED = 20  # times that a task asks the manager
THREAD_S = 0.1  # s that a thread runs after its task


class Manager(BaseManager):
    """A process of multiprocessing that serves objects."""


class Echo:
    """What the manager serves."""

    def get(self, number: int) -> int:
        return number


Manager.register("Echo", Echo)
echo: Any = None
queue: Any = None  # of multiprocessing, to the application


def connect(address: str) -> Any:
    """Return a proxy that has a connection."""
    manager = Manager(address, KEY)
    manager.connect()
    proxy = manager.Echo()  # type: ignore[attr-defined]
    proxy.get(0)
    return proxy


def initialize(value: object) -> None:
    global queue
    queue = value


def begin(path: str, number: int) -> None:
    """Append the number to a file, and print it to a buffer: each task below does that first."""
    note(path, str(number))
    if sys.stdout:
        sys.stdout.write(f"<{number}>")


def leaves(path: str, number: int, seconds: float = THREAD_S) -> int:
    """Leave a thread that appends the number to the file "ended"."""
    begin(path, number)
    threading.Thread(target=_end_later, args=(path, number, seconds)).start()
    return number


def _end_later(path: str, number: int, seconds: float) -> None:
    time.sleep(seconds)
    note(str(Path(path).with_name("ended")), str(number))


def logs(path: str, number: int) -> int:
    """Put records into the queue, whose thread writes them after the task."""
    begin(path, number)
    for _ in range(RECORDS):
        queue.put((number, RECORD))
    return number


def asks(path: str, number: int) -> int:
    """Return what the manager answers."""
    begin(path, number)
    found = {echo.get(number) for _ in range(ASKED)}
    return int(found.pop()) if len(found) == 1 else -1


def prints(path: str, number: int) -> int:
    begin(path, number)
    return number


def complains(path: str, number: int) -> int:
    """Write to the descriptors of stdout and stderr, as C code does."""
    begin(path, number)
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\xff" * 64)
    return number


def stamp() -> tuple[int, float]:
    """Return this process and the time of the monotonic clock."""
    return os.getpid(), time.monotonic()


@functools.cache
def iterations_per_second() -> int:
    count = 50_000
    began = time.thread_time()
    hashlib.pbkdf2_hmac("sha256", b"", b"", count)
    return int(count / (time.thread_time() - began))


def derive(path: str, number: int, iterations: int) -> int:
    """Stay in one call of C code, which calls no signal handler."""
    begin(path, number)
    hashlib.pbkdf2_hmac("sha256", b"", b"", iterations)
    return number


def derive_timed(iterations: int) -> tuple[int, float, float]:
    """Do the same, and return this process and the times around the call."""
    began = time.monotonic()
    hashlib.pbkdf2_hmac("sha256", b"", b"", iterations)
    return os.getpid(), began, time.monotonic()


EFFECTS = (leaves, logs, asks, prints, complains)
PRINTING = {each.__name__ for each in (*EFFECTS, derive)}

if __name__ == "__main__":
    Manager(sys.argv[1], KEY).get_server().serve_forever()
elif "MANAGER" in os.environ:
    echo = connect(os.environ["MANAGER"])
