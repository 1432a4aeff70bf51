"""Generated functions: waits, CPU time with and without the GIL, payloads, locks and delays.

The name lists what a call does, with times in ms: python_5 computes for about 5 ms holding the GIL,
native_5 for about 5 ms without it. CPU work is a fixed number of steps: on a slower or busy core it
takes longer.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import hashlib
import itertools
import math
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from offload.registry import places

STABLE = True
PYTHON_STEPS = 9_000  # loop steps in Python per ms on a 2.5 GHz core
C_STEPS = 70_000  # steps per ms of a C call that holds the GIL
NATIVE_BYTES = 600_000  # hashed per ms, without the GIL
SETUP_MS = 400
DRAWS = 500  # factors of the variable functions, before they repeat
SEED = 11
SIGMA = 1.0  # of the lognormal factors; their mean is 1
SLOW_FACTOR = 10.0  # for one call in ten
STRIDE = 7919  # from one process's first factor to the next process's
LOCK_FILE = places.cache() / "corpus" / "lock"

_lock = threading.Lock()
_calls = itertools.count()


def wait_5() -> bytes:
    """Wait 5 ms."""
    return _work(wait=5)


def wait_50() -> bytes:
    """Wait 50 ms."""
    return _work(wait=50)


def wait_500() -> bytes:
    """Wait 500 ms."""
    return _work(wait=500)


def python_quarter() -> bytes:
    """Compute in Python for about 0.25 ms."""
    return _work(python=0.25)


def python_1() -> bytes:
    """Compute in Python for about 1 ms."""
    return _work(python=1)


def python_5() -> bytes:
    """Compute in Python for about 5 ms."""
    return _work(python=5)


def python_50() -> bytes:
    """Compute in Python for about 50 ms."""
    return _work(python=50)


def python_300() -> bytes:
    """Compute in Python for about 300 ms."""
    return _work(python=300)


def one_c_call_50() -> bytes:
    """Make one C call of about 50 ms that never releases the GIL."""
    return b"%d" % sum(range(50 * C_STEPS))


def native_1() -> bytes:
    """Compute without the GIL for about 1 ms."""
    return _work(native=1)


def native_5() -> bytes:
    """Compute without the GIL for about 5 ms."""
    return _work(native=5)


def native_50() -> bytes:
    """Compute without the GIL for about 50 ms."""
    return _work(native=50)


def wait_5_python_1() -> bytes:
    """Wait 5 ms, and compute in Python for about 1 ms."""
    return _work(wait=5, python=1)


def wait_50_python_5() -> bytes:
    """Wait 50 ms, and compute in Python for about 5 ms."""
    return _work(wait=50, python=5)


def wait_50_python_50() -> bytes:
    """Wait 50 ms, and compute in Python for about 50 ms."""
    return _work(wait=50, python=50)


def wait_200_python_5() -> bytes:
    """Wait 200 ms, and compute in Python for about 5 ms."""
    return _work(wait=200, python=5)


def wait_5_native_50() -> bytes:
    """Wait 5 ms, and compute without the GIL for about 50 ms."""
    return _work(wait=5, native=50)


def wait_50_native_5() -> bytes:
    """Wait 50 ms, and compute without the GIL for about 5 ms."""
    return _work(wait=50, native=5)


def python_5_native_50() -> bytes:
    """Compute for about 5 ms in Python and 50 ms without the GIL."""
    return _work(python=5, native=50)


def wait_20_python_5_native_5() -> bytes:
    """Wait 20 ms, and compute for about 5 ms in Python and 5 ms without the GIL."""
    return _work(wait=20, python=5, native=5)


def python_1_sends_1mb() -> bytes:
    """Compute in Python for about 1 ms, and return 1 MB."""
    return _work(python=1, payload=1_000_000)


def wait_20_sends_4mb() -> bytes:
    """Wait 20 ms, and return 4 MB."""
    return _work(wait=20, payload=4_000_000)


def native_5_fills_50mb() -> bytes:
    """Fill 50 MB of memory, and compute without the GIL for about 5 ms."""
    filled = b"\x01" * 50_000_000
    return _work(native=5) + b" %d" % len(filled)


def lock_wait_5_outside_20() -> bytes:
    """Wait 20 ms, then 5 ms under a lock that all threads of the process share."""
    outside = _work(wait=20)
    with _lock:
        return outside + _work(wait=5)


def lock_python_5_outside_20() -> bytes:
    """Wait 20 ms, then compute in Python for about 5 ms under a lock that all threads share."""
    outside = _work(wait=20)
    with _lock:
        return outside + _work(python=5)


def lock_native_5() -> bytes:
    """Compute without the GIL for about 5 ms under a lock that all threads share."""
    with _lock:
        return _work(native=5)


def file_lock_wait_5_outside_20() -> bytes:
    """Wait 20 ms, then 5 ms under a lock that all processes share."""
    outside = _work(wait=20)
    with _file_lock():
        return outside + _work(wait=5)


def file_lock_python_5() -> bytes:
    """Compute in Python for about 5 ms, then for 5 ms under a lock that all processes share."""
    outside = _work(python=5)
    with _file_lock():
        return outside + _work(python=5)


def wait_20_lognormal() -> bytes:
    """Wait 20 ms on average, with a lognormal distribution."""
    return _work(wait=20 * _factor(_lognormal()))


def python_5_lognormal() -> bytes:
    """Compute in Python for about 5 ms on average, with a lognormal distribution."""
    return _variable(python=5 * _factor(_lognormal()))


def wait_20_slow_tenth() -> bytes:
    """Wait 20 ms, and one time in ten 200 ms."""
    return _work(wait=20 * _factor(_slow_tenth()))


def python_5_slow_tenth() -> bytes:
    """Compute in Python for about 5 ms, and one time in ten for 50 ms."""
    return _variable(python=5 * _factor(_slow_tenth()))


def slow_setup() -> bytes:
    """Wait 5 ms and compute for about 1 ms; the first call of a process computes for 400 ms."""
    return _setup() + _work(wait=5, python=1)


async def async_wait_50() -> bytes:
    """Await 50 ms."""
    await asyncio.sleep(0.05)
    return b"0 0"


async def async_wait_50_python_5() -> bytes:
    """Await 50 ms, and compute in Python for about 5 ms."""
    await asyncio.sleep(0.05)
    return _work(python=5)


async def async_blocks_20() -> bytes:
    """Block in a coroutine for 20 ms, and so block the event loop."""
    return _work(wait=20)


def wait_10_python_5() -> bytes:
    """Wait 10 ms, and compute in Python for about 5 ms."""
    return _work(wait=10, python=5)


def wait_100_native_5() -> bytes:
    """Wait 100 ms, and compute without the GIL for about 5 ms."""
    return _work(wait=100, native=5)


def wait_10_python_2_native_2() -> bytes:
    """Wait 10 ms, and compute for about 2 ms in Python and 2 ms without the GIL."""
    return _work(wait=10, python=2, native=2)


def python_20() -> bytes:
    """Compute in Python for about 20 ms."""
    return _work(python=20)


def native_20() -> bytes:
    """Compute without the GIL for about 20 ms."""
    return _work(native=20)


def wait_5_sends_1mb() -> bytes:
    """Wait 5 ms, and return 1 MB."""
    return _work(wait=5, payload=1_000_000)


def lock_python_1_outside_5() -> bytes:
    """Wait 5 ms, then compute in Python for about 1 ms under a lock that all threads share."""
    outside = _work(wait=5)
    with _lock:
        return outside + _work(python=1)


def python_10_lognormal() -> bytes:
    """Compute in Python for about 10 ms on average, with a lognormal distribution."""
    return _variable(python=10 * _factor(_lognormal()))


def wait_50_lognormal() -> bytes:
    """Wait 50 ms on average, with a lognormal distribution."""
    return _work(wait=50 * _factor(_lognormal()))


async def async_wait_20_python_1() -> bytes:
    """Await 20 ms, and compute in Python for about 1 ms."""
    await asyncio.sleep(0.02)
    return _work(python=1)


def wait_20_python_2() -> bytes:
    """Wait 20 ms, and compute in Python for about 2 ms."""
    return _work(wait=20, python=2)


def wait_30_native_10() -> bytes:
    """Wait 30 ms, and compute without the GIL for about 10 ms."""
    return _work(wait=30, native=10)


def wait_150() -> bytes:
    """Wait 150 ms."""
    return _work(wait=150)


def python_2_native_10() -> bytes:
    """Compute for about 2 ms in Python and 10 ms without the GIL."""
    return _work(python=2, native=10)


def python_10_sends_200kb() -> bytes:
    """Compute in Python for about 10 ms, and return 200 kB."""
    return _work(python=10, payload=200_000)


def lock_wait_2_outside_10() -> bytes:
    """Wait 10 ms, then 2 ms under a lock that all threads of the process share."""
    outside = _work(wait=10)
    with _lock:
        return outside + _work(wait=2)


def file_lock_wait_2_outside_10() -> bytes:
    """Wait 10 ms, then 2 ms under a lock that all processes share."""
    outside = _work(wait=10)
    with _file_lock():
        return outside + _work(wait=2)


def wait_30_slow_tenth() -> bytes:
    """Wait 30 ms, and one time in ten 300 ms."""
    return _work(wait=30 * _factor(_slow_tenth()))


async def async_wait_30_native_5() -> bytes:
    """Await 30 ms, and compute without the GIL for about 5 ms."""
    await asyncio.sleep(0.03)
    return _work(native=5)


async def async_blocks_5() -> bytes:
    """Block in a coroutine for 5 ms, and so block the event loop."""
    return _work(wait=5)


def _work(*, wait: float = 0, python: float = 0, native: float = 0, payload: int = 0) -> bytes:
    """Wait and compute for the given ms; return the results and `payload` additional bytes."""
    if wait:
        time.sleep(wait / 1000)
    return b"%d %d" % (_python(python), _native(native)) + b"." * payload


def _variable(python: float) -> bytes:
    """Compute in Python. The result does not depend on the number of steps."""
    return b"%d" % (_python(python) >= 0)


def _python(ms: float) -> int:
    value = 1
    for _ in range(round(ms * PYTHON_STEPS)):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFFFFFF
    return value


def _native(ms: float) -> int:
    digest = hashlib.blake2b(digest_size=8)
    buffer = _buffer()
    whole, rest = divmod(round(ms * NATIVE_BYTES), len(buffer))
    for _ in range(whole):
        digest.update(buffer)
    digest.update(buffer[:rest])
    return int.from_bytes(digest.digest(), "big")


@functools.cache
def _buffer() -> memoryview:
    return memoryview(bytes(range(256)) * 8192)


def _factor(factors: tuple[float, ...]) -> float:
    """Return the next factor. Each process starts at a different position."""
    return factors[(next(_calls) + os.getpid() * STRIDE) % len(factors)]


@functools.cache
def _lognormal() -> tuple[float, ...]:
    """Return lognormal factors whose mean is 1."""
    generator = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    drawn = [generator.lognormvariate(0, SIGMA) for _ in range(DRAWS)]
    return tuple(factor * DRAWS / math.fsum(drawn) for factor in drawn)


@functools.cache
def _slow_tenth() -> tuple[float, ...]:
    factors = [SLOW_FACTOR if n % 10 == 0 else 1.0 for n in range(DRAWS)]
    random.Random(SEED).shuffle(factors)  # noqa: S311 - repeatable on purpose
    return tuple(factors)


@functools.cache
def _setup() -> bytes:
    return _work(python=SETUP_MS)


@contextmanager
def _file_lock() -> Iterator[None]:
    LOCK_FILE.parent.mkdir(parents=True, exist_ok=True)
    with LOCK_FILE.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield
