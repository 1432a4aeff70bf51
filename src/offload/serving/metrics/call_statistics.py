"""Calls of a task by one worker of a probe: their number, times, failures and results."""

from __future__ import annotations

import asyncio
import math
import resource
import sys
import zlib
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from threading import get_native_id
from time import monotonic, process_time, thread_time
from typing import Any

from offload import tasks
from offload.tasks import TaskFailed

MOST_TIMES = 200  # wall times that are kept
MOST_CHECKED = 50  # results whose checksum is computed: it costs 1 ms per MB
MEMORY_EVERY_S = 0.02  # s between two readings of the memory
MOST_SUMS = 8  # different checksums that are kept


@dataclass
class CallStatistics:
    """The calls of one worker; times are in s.

    `wall_s` is the time from the first call's start to the last call's end. `cpu_s` is the CPU time
    of the whole process and its children in that time. `queued_s` is how long the worker was
    runnable without a CPU, `switches` the number of its context switches. `times` are the wall
    times of single calls, `checksums` the distinct checksums of results. `error` is the text of the
    first failure. `checking_s` and `checking_cpu_s` are the wall and the CPU time of the checksums,
    which are not in the others.
    """

    done: int = 0
    failed: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    queued_s: float = 0.0
    switches: int = 0
    times: list[float] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)
    error: str | None = None
    checking_s: float = 0.0
    checking_cpu_s: float = 0.0

    def add(self, seconds: float, outcome: bytes | TaskFailed) -> None:
        """Add one finished call."""
        self.done += 1
        if len(self.times) < MOST_TIMES:
            self.times.append(round(seconds, 9))
        if isinstance(outcome, TaskFailed):
            self.failed += 1
            self.error = self.error or str(outcome)
            return
        if self.done <= MOST_CHECKED and len(self.checksums) < MOST_SUMS:
            self._check(outcome)

    def _check(self, result: bytes) -> None:
        """Add the checksum of a result if it is a new one."""
        began, cpu = monotonic(), thread_time()
        checksum = zlib.crc32(result)
        if checksum not in self.checksums:
            self.checksums.append(checksum)
        self.checking_s += monotonic() - began
        self.checking_cpu_s += thread_time() - cpu


def peak_mib() -> float:
    """Return the peak memory (RSS) of this process in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def cpu_time() -> float:
    """Return the CPU time in s of all threads of this process and of its children that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def calls(
    task: str,
    seconds: float,
    least: int = 1,
    run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run,
    most_mib: float = math.inf,
) -> CallStatistics:
    """Call a task sequentially in this thread for `seconds`, at least `least` times.

    `run` runs a coroutine to its end: by default on a new event loop. The calls end earlier if the
    peak memory of the process grows by `most_mib`.
    """
    found = CallStatistics()
    memory_ends, memory_at = peak_mib() + most_mib, 0.0
    cpu, (queued, switches) = cpu_time(), scheduling()
    started = before = monotonic()
    while found.done < least or before - started < seconds:
        outcome: bytes | TaskFailed
        try:
            outcome = tasks.call(task, run)
        except TaskFailed as error:
            outcome = error
        now = monotonic()
        found.add(now - before, outcome)
        before = monotonic()
        if before - memory_at > MEMORY_EVERY_S:
            memory_at = before
            if peak_mib() > memory_ends:
                break
    later, more = scheduling()
    found.wall_s = before - started - found.checking_s
    found.cpu_s = cpu_time() - cpu - found.checking_cpu_s
    found.queued_s, found.switches = later - queued, more - switches
    return found


async def acalls(task: str, seconds: float, started: float, least: int = 0) -> CallStatistics:
    """Await a task repeatedly on this event loop until `seconds` after `started`.

    After each call, other coroutines on the loop can run, as between two requests. Otherwise a
    coroutine that never awaits would complete all its calls before the next one starts.

    `started` is the time at which all users of the loop started: `wall_s` includes the wait for the
    loop before the first call. A user that the loop runs later than `seconds` after it makes only
    `least` calls. The CPU time is not measured.
    """
    found = CallStatistics()
    before = monotonic()
    while found.done < least or before - started < seconds:
        outcome: bytes | TaskFailed
        try:
            outcome = await tasks.acall(task)
        except TaskFailed as error:
            outcome = error
        found.add(monotonic() - before, outcome)
        await asyncio.sleep(0)
        before = monotonic()
    found.wall_s = before - started
    return found


def scheduling() -> tuple[float, int]:
    """Return this thread's wait for a CPU in s, and its context switches (Linux; else 0)."""
    folder = Path(f"/proc/self/task/{get_native_id()}")
    try:
        queued = int((folder / "schedstat").read_bytes().split()[1]) / 1e9
        lines = (folder / "status").read_text().splitlines()
    except OSError:
        return 0.0, 0
    return queued, sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


class LoopClock:
    """Measures how long an event loop is idle: the time that it spends in its selector.

    There the loop waits for files and timers, and then for the GIL. `is_known` is False if the loop
    has no selector of its own, such as that of uvloop.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._idle_s = 0.0
        selector = getattr(loop, "_selector", None)  # a loop has no public access to it
        self.is_known = selector is not None
        if selector is None:
            return
        select = selector.select

        def timed(timeout: float | None = None) -> list[object]:
            before = monotonic()
            try:
                return select(timeout)  # type: ignore[no-any-return]
            finally:
                self._idle_s += monotonic() - before

        selector.select = timed

    def running_s(self) -> float:
        """Return a time in s that stops while the loop of this thread is idle or has no CPU.

        A wait for a CPU after `select` is subtracted twice, so the CPU time may be larger.
        """
        queued_s, _ = scheduling()
        return monotonic() - self._idle_s - queued_s
