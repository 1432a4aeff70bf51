"""The payloads of the benchmark: what a worker is asked to do, which is next to nothing."""

from __future__ import annotations

import os
import time
from typing import Any

MIB = 1 << 20
ARGUMENT, RESULT = "1 MB argument", "1 MB result"  # what crosses one way; the others cross both
SIZES = {
    "no-op": 0,
    "1 KB": 1000,
    "100 KB": 100_000,
    "1 MB": MIB,
    ARGUMENT: MIB,
    RESULT: MIB,
    "10 MB": 10 * MIB,
}
LEASED = {"100 KB", "1 MB", RESULT, "10 MB"}  # whose results are large enough to be leased
LENT = {ARGUMENT}  # whose arguments can be lent: what is sent back must be bytes again
FLIGHTS = (1, 64)  # tasks at once: what a hop takes, and how many a second


def noop() -> None:
    """Do nothing."""


def echo(data: Any) -> Any:
    """Give back what came."""
    return data


def take(data: Any) -> int:
    """Count what came."""
    return len(data)


def make(size: int) -> bytes:
    """Make so many bytes, each written to."""
    return b"-" * size


def nap(seconds: float) -> None:
    """Keep a worker, so that the next call needs another."""
    time.sleep(seconds)


def call(size: str) -> tuple[Any, tuple[Any, ...]]:
    """Give the function and the arguments of a size."""
    if size == "no-op":
        return noop, ()
    if size == RESULT:
        return make, (SIZES[size],)
    return take if size == ARGUMENT else echo, (os.urandom(SIZES[size]),)
