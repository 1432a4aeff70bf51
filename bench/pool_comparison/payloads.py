"""The payloads of the benchmark: what a worker is asked to do, which is next to nothing."""

from __future__ import annotations

import functools
import os
import time
from typing import Any

MIB = 1 << 20
SIZES = {  # an argument or a result crosses one way, the others both
    "no-op": 0,
    "1 KB": 1000,
    "100 KB": 100_000,
    "100 KB result": 100_000,
    "1 MB": MIB,
    "1 MB argument": MIB,
    "1 MB result": MIB,
    "10 MB": 10 * MIB,
}
LENT = {"1 MB argument"}  # whose arguments can be lent: what is sent back must be bytes again
LEASED = {*SIZES} - {"no-op", "1 KB"} - LENT  # whose results are large enough to be leased
FLIGHTS = (1, 64)  # tasks at once: what a hop takes, and how many a second

_made: dict[int, bytes] = {}


def noop() -> None:
    """Do nothing."""


def echo(data: Any) -> Any:
    """Give back what came."""
    return data


def take(data: Any) -> int:
    """Count what came."""
    return len(data)


def make(size: int) -> bytes:
    """Give so many bytes, which only the first call makes."""
    if size not in _made:
        _made[size] = os.urandom(size)
    return _made[size]


def nap(seconds: float) -> None:
    """Keep a worker, so that the next call needs another."""
    time.sleep(seconds)


@functools.cache  # for to free large arguments would raise the thresholds of malloc
def call(size: str) -> tuple[Any, tuple[Any, ...]]:
    """Give the function and the arguments of a size, the same each time."""
    if size == "no-op":
        return noop, ()
    if size.endswith("result"):
        return make, (SIZES[size],)
    return take if size.endswith("argument") else echo, (os.urandom(SIZES[size]),)
