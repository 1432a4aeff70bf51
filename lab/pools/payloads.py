"""The payloads of the benchmark: functions that do almost nothing, and their arguments."""

from __future__ import annotations

import functools
import os
import time
from typing import Any

MIB = 1 << 20
SIZES = {  # bytes; "argument" and "result" are sent one way, the others both ways
    "no-op": 0,
    "1 KB": 1000,
    "100 KB": 100_000,
    "100 KB result": 100_000,
    "1 MB": MIB,
    "1 MB argument": MIB,
    "1 MB result": MIB,
    "10 MB": 10 * MIB,
}
ARGUMENT_VIEW_SIZES = {"1 MB argument"}  # for zero_copy_args: echo must return bytes, not a view
RESULT_VIEW_SIZES = (
    {*SIZES} - {"no-op", "1 KB"} - ARGUMENT_VIEW_SIZES
)  # for zero_copy_result: large results only
CONCURRENCIES = (1, 64)  # concurrent tasks: 1 for latency, 64 for throughput

_buffers: dict[int, bytes] = {}


def noop() -> None:
    """Do nothing."""


def echo(data: Any) -> Any:
    """Return the argument."""
    return data


def take(data: Any) -> int:
    """Return the length of the argument."""
    return len(data)


def make(size: int) -> bytes:
    """Return `size` bytes, the same object in each call."""
    if size not in _buffers:
        _buffers[size] = os.urandom(size)
    return _buffers[size]


def nap(seconds: float) -> None:
    """Occupy a worker, so that the next call uses another one."""
    time.sleep(seconds)


@functools.cache  # freeing large arguments would raise the malloc thresholds
def call(size: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the function and the arguments of a size, the same objects each time."""
    if size == "no-op":
        return noop, ()
    if size.endswith("result"):
        return make, (SIZES[size],)
    return take if size.endswith("argument") else echo, (os.urandom(SIZES[size]),)
