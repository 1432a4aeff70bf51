"""A task whose behaviour the file `control` in FAULTS_FOLDER selects at each call.

Each call appends a byte to the file `calls`. The file `token` exists until one call removes it.
With `mixed`, a call that finds the file `deadly` removes it and kills its process.
"""

import ctypes
import os
import random
import sys
import threading
import time
from pathlib import Path

from offload import tasks

NAP_S, POLL_S = 0.05, 0.02
LARGE = b"x" * (1 << 18)  # more than the kernel takes for a client that reads slowly
SIZES = (2_000, 20_000, 200_000)  # bytes of large responses of `mixed`


class BadError(BaseException):
    """An error that is no Exception."""


class OddError(Exception):
    """Cannot be unpickled: its __init__ needs two values."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def act():
    """Count the call, and behave as selected."""
    with _file("calls").open("ab", buffering=0) as file:
        file.write(b".")
    return ACTS[_read_control()]()


def _file(name):
    return Path(os.environ["FAULTS_FOLDER"]) / name


def _read_control():
    return _file("control").read_text()


def _ok():
    return b"ok"


def _nap():
    time.sleep(NAP_S)
    return b"ok"


def _half_second():
    time.sleep(0.5)
    return b"ok"


def _second():
    time.sleep(1.0)
    return b"ok"


def _raise():
    raise ValueError("two\nlines\x1b[31m")


def _raise_base():
    raise BadError("no Exception")


def _raise_odd():
    raise OddError(1, 2)


def _interrupt():
    raise KeyboardInterrupt


def _recurse():
    return _recurse()


def _return_lock():
    return threading.Lock()


def _return_lambda():
    return lambda: None


def _hang():
    while _read_control() == "hang":
        time.sleep(POLL_S)
    return b"ok"


def _hang_once():
    """The first call hangs until the file is `ok`, the others do not."""
    try:
        _file("token").unlink()
    except FileNotFoundError:
        return b"ok"
    while _read_control() != "ok":
        time.sleep(POLL_S)
    return b"ok"


def _hold_the_gil():
    ctypes.PyDLL(None).sleep(60)  # PyDLL does not release the GIL
    return b"ok"


def _mixed():
    """Behave like one of MIXED, chosen at random."""
    try:
        _file("deadly").unlink()
    except FileNotFoundError:
        [how] = random.choices([*MIXED], [*MIXED.values()])  # noqa: S311
        return how()
    return ACTS["die"]()


def _random_bytes():
    return random.randbytes(random.choice(SIZES))  # noqa: S311


MIXED = {  # share of the calls in percent
    tasks.resolve("sleep_shortest_sync"): 45,
    tasks.resolve("checksum_sync"): 20,
    tasks.resolve("noop_sync"): 10,
    tasks.resolve("file_sync"): 8,
    _random_bytes: 8,
    _raise: 3,
    lambda: sys.exit(3): 2,
    _return_lock: 2,
    _raise_odd: 2,
}

ACTS = {
    "ok": _ok,
    "nap": _nap,
    "half a second": _half_second,
    "a second": _second,
    "large": lambda: LARGE,
    "exception": _raise,
    "BaseException": _raise_base,
    "exception that cannot be pickled": _raise_odd,
    "KeyboardInterrupt": _interrupt,
    "sys.exit": lambda: sys.exit(3),
    "recursion": _recurse,
    "result that cannot be pickled": _return_lock,
    "invalid result": _return_lambda,
    "die": lambda: os.kill(os.getpid(), 9),
    "hang": _hang,
    "hang once": _hang_once,
    "hold the GIL": _hold_the_gil,
    "mixed": _mixed,
}
