"""The payloads of the benchmark: what a worker is asked to do, which is next to nothing."""

from __future__ import annotations

import os
import time
from typing import Any

SIZES = {"no-op": 0, "1 KB": 1000, "100 KB": 100_000, "1 MB": 1 << 20, "10 MB": 10 << 20}
FLIGHTS = (1, 64)  # tasks at once: what a hop takes, and how many a second


def noop() -> None:
    """Do nothing."""


def echo(data: Any) -> Any:
    """Give back what came."""
    return data


def nap(seconds: float) -> None:
    """Keep a worker, so that the next call needs another."""
    time.sleep(seconds)


def call(size: str) -> tuple[Any, tuple[bytes, ...]]:
    """Give the function and the arguments of a size."""
    return (echo, (os.urandom(SIZES[size]),)) if SIZES[size] else (noop, ())
