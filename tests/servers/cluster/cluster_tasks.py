"""Tasks that append a line to the file RUNS when they run."""

import os
import time
from pathlib import Path


def _note():
    with Path(os.environ["RUNS"]).open("a") as file:
        file.write(f"{os.getpid()}\n")


def note():
    _note()
    return "noted"


def hold():
    """Note, and run until the file HOLD is removed, for at most 30 s."""
    _note()
    until = time.monotonic() + 30
    while Path(os.environ["HOLD"]).exists() and time.monotonic() < until:
        time.sleep(0.01)
    return "held"


def dies():
    _note()
    os._exit(1)


def pid():
    return str(os.getpid())


double = lambda: str(2 * 21)  # noqa: E731 - a lambda is a task, too
