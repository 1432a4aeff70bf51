"""A slice of the benchmark: one pool, size and number of concurrent tasks for a short time."""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any


async def measure_slice(
    pool: Any,
    call: tuple[Any, tuple[Any, ...]],
    concurrency: int,
    seconds: float,
    pids: Iterable[int],
) -> tuple[array[float], float, float | None]:
    """Run concurrent tasks; return the latency of each, the elapsed time and the CPU time in s.

    The CPU time is that of this process and of `pids`, the pool's processes; None if unknown.
    """
    function, args = call
    await pool.run(function, *args)  # so that a worker has imported the function
    times = array("d")
    pids = [os.getpid(), *pids]
    cpu, start = _cpu(pids), time.perf_counter()

    async def user() -> None:
        started = start
        while not times or started - start < seconds:
            started = time.perf_counter()
            await pool.run(function, *args)
            times.append(time.perf_counter() - started)

    await asyncio.gather(*(user() for _ in range(concurrency)))
    took, after = time.perf_counter() - start, _cpu(pids)
    return times, took, None if cpu is None or after is None else after - cpu


def _cpu(pids: Iterable[int]) -> float | None:
    """Return the CPU time of processes in s; None if unknown."""
    try:  # Linux derives the id of the clock from the pid
        return sum(time.clock_gettime_ns(~pid << 3 | 2) for pid in pids) / 1e9
    except OSError:
        return None


def children() -> set[int]:
    """Return the pids of all descendants of this process (Linux; otherwise none)."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_bytes().rpartition(b")")[2].split()[1])
        except OSError:  # the process has ended meanwhile
            continue
    found = {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return found - {os.getpid()}


def memory(pids: Iterable[int]) -> float | None:
    """Return the sum of the PSS of processes in MiB; None if unknown."""
    try:
        lines = [
            line
            for pid in pids
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        ]
    except OSError:
        return None
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
