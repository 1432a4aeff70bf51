"""Measure calls of several workers at once for the probe: in threads, processes and a loop."""

from __future__ import annotations

import json
import math
import statistics
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import psutil

from offload import cores, resource_limits
from offload.bench.advice.inputs.call_cost import CallCost
from offload.bench.advice.inputs.probe import (
    KEPT_PAGES,
    LOOP,
    PROCESSES,
    THREADS,
    Point,
)
from offload.bench.advice.strategies import MOST_WORKERS
from offload.bench.target.calling_process import CallingProcess, CallTimeout
from offload.bench.telemetry.process_tree import ProcessTree, pss_mib, uss_mib
from offload.bench.telemetry.speed import machine_speed
from offload.errors import MachineError, RunError, StartError

MARGIN_S = 60.0  # added to the expected time of a measurement for its timeout
COROUTINE_MARGIN_S = 10.0  # the same for a coroutine in threads, where it may wait forever
POINT_S = 0.7  # duration in s of the calls of several workers
PASSES = 2  # measurements of each number of workers; one if a call takes longer than POINT_S
LONGEST_POINT_S = 5.0  # expected time of one call of each worker: limits their number; a guess
LONGEST_START_S = 6.0  # expected time in which processes import the task and call it: limits them
AT_ONCE = 0.8  # time alone over that of concurrent calls, above which they ran at once; a guess
CROWDING = "crowding"
PEAK_EVERY_S = 0.02  # s between two readings of the memory of calls in threads


class ProbeTimeout(RunError):
    """Calls did not end in time."""


class EndlessCalls(ProbeTimeout):
    """Calls of a coroutine in threads did not end in time.

    In threads each call has a loop of its own, which no other one can wake up.
    """


@dataclass(frozen=True)
class Pass:
    """One measurement of each number of workers.

    `crowding` is that of `Probe`, and `speeds_s` are durations of fixed work in Python in s.
    `upstream_cpu_s` is the CPU time of the upstream in s, for all calls of the pass.
    """

    points: tuple[Point, ...]
    crowding: float
    speeds_s: tuple[float, ...]
    upstream_cpu_s: float

    @property
    def calls(self) -> float:
        """The number of calls of all points."""
        return sum(each.rate * POINT_S for each in self.points)


def measure(
    child: CallingProcess,
    call: CallCost,
    start_s: float,
    is_coroutine: bool,
    users: int,
    upstream: ProcessTree | None,
    with_threads: bool = True,
) -> Iterator[Pass]:
    """Yield the passes, all with the same numbers of workers; raise RunError.

    Raise EndlessCalls if calls of a coroutine in threads do not end; `with_threads` is False to
    measure without them.
    `start_s` is how long a process takes for the import and for what its first call prepares.
    """
    first: Pass | None = None
    for _ in range(PASSES if call.wall_s < POINT_S else 1):
        upstream_start_s, idle = _cpu_s(upstream), _pids(child)
        crowding = request(child, CROWDING, cores.available(), 0.0)["crowding"]
        if first is None:
            points = tuple(_points(child, call, start_s, is_coroutine, users, idle, with_threads))
        else:
            points = tuple(point(child, each.kind, each.count) for each in first.points)
        speeds_s = tuple(machine_speed.measure().python_s for _ in points)
        found = Pass(points, crowding, speeds_s, _cpu_s(upstream) - upstream_start_s)
        first = first or found
        yield found


def means(passes: Sequence[Pass]) -> tuple[Point, ...]:
    """Return each point as its mean in several passes: the machine's speed varies."""
    return tuple(map(_mean, zip(*(each.points for each in passes), strict=True)))


def _mean(points: Sequence[Point]) -> Point:
    names = ("rate", "wall_s", "cpu_s", "queued_s", "failed")
    found = {name: statistics.fmean(getattr(each, name) for each in points) for name in names}
    on_loop = [each.on_loop_s for each in points if each.on_loop_s is not None]
    on_loop_s = statistics.fmean(on_loop) if on_loop else None
    results = max(each.results for each in points)
    return replace(points[0], results=results, on_loop_s=on_loop_s, **found)  # type: ignore[arg-type]


def _points(
    child: CallingProcess,
    call: CallCost,
    start_s: float,
    is_coroutine: bool,
    users: int,
    idle: Collection[int],
    with_threads: bool,
) -> Iterator[Point]:
    """Measure threads and processes: one worker for each core, and as many as could be useful.

    A coroutine is first measured on one event loop, with as many concurrent calls as there are
    users, but at least two. If a call has many page faults, processes that keep freed pages are
    measured, too. `idle` are the pids before one process for each core was started.
    """
    if is_coroutine:
        # Before threads: a lock of asyncio belongs to the first loop on which a call waits for it.
        # Then calls in threads fail; if threads were first, they could wait for it forever.
        yield point(child, LOOP, max(2, users))
    available = cores.available()
    useful = useful_workers(call.wait_s, call.cpu_s, available, users)
    most = min(useful, MOST_WORKERS[THREADS])
    margin_s = COROUTINE_MARGIN_S if is_coroutine else MARGIN_S
    if with_threads:
        try:
            yield from _thread_points(child, call.wall_s, available, most, margin_s)
        except ProbeTimeout as error:
            if is_coroutine:
                raise EndlessCalls(error.what) from None
            raise
    fitting = _most_processes(LONGEST_POINT_S, call.cpu_s, available)
    starting = _most_processes(LONGEST_START_S, start_s, available)
    for count in sorted({available, min(useful, 4 * available, fitting, starting)}):
        yield point(child, PROCESSES, count, idle if count == available else None)
        if count == available and call.has_many_page_faults:
            yield point(child, KEPT_PAGES, count)


def _most_processes(limit_s: float, each_s: float, available: int) -> int:
    """Return how many processes compute for `each_s` within `limit_s`, at least one a core."""
    most = sys.maxsize if not each_s else int(limit_s * available / each_s)
    return max(available, most)


def _thread_points(
    child: CallingProcess, alone_s: float, first: int, most: int, margin_s: float
) -> Iterator[Point]:
    """Measure `first` threads, then more of them, up to `most`; a call alone takes `alone_s`.

    Raise ProbeTimeout if the calls take `margin_s` longer than one after the other.
    """
    count = first
    while True:
        yield (found := point(child, THREADS, count, margin_s=margin_s + count * alone_s))
        if (following := more_threads(found, alone_s, most)) <= count:
            return
        count = following


def more_threads(found: Point, alone_s: float, most: int) -> int:
    """Return the next number of threads to measure after a point, at most `most`.

    One call of each thread must fit into LONGEST_POINT_S. If the calls took hardly longer than
    alone, at least as many run at the same time as in this point. Otherwise they may run one after
    the other, such as with a lock.
    """
    at_once = found.count if alone_s >= AT_ONCE * found.wall_s else 1
    return min(most, int(at_once * LONGEST_POINT_S / alone_s))


def useful_workers(wait_s: float, cpu_s: float, available: int, users: int) -> int:
    """Return the number of workers that use all cores, with a reserve, at most one for each user.

    It is 2 x cores x (wait + CPU) / CPU, but at least 2. Half of it uses all cores if nothing else
    limits the rate.
    """
    wall_s = wait_s + cpu_s
    return max(2, min(users, math.ceil(2 * available * wall_s / max(cpu_s, wall_s / users))))


def point(
    child: CallingProcess,
    kind: str,
    count: int,
    idle: Collection[int] | None = None,
    margin_s: float = MARGIN_S,
) -> Point:
    """Measure calls of `count` workers, and the memory of new threads and processes.

    `idle` are the pids that are no workers of this point; None: those that run now.
    """
    idle = _pids(child) if idle is None else idle
    before_mib = memory_mib(child.pid) if kind == THREADS else None
    with PeakMemory(child.pid) as peak:
        found = request(child, kind, count, POINT_S, margin_s)
    worker_mib = None
    if kind == PROCESSES:
        added = [p for p in tree(child.pid) if p.pid not in idle]
        known = [mib for p in added if (mib := uss_mib(p)) is not None]
        worker_mib = sum(known) / count if known else None
    elif before_mib and peak.mib:
        worker_mib = max(0.0, peak.mib - before_mib) / count
    return Point(
        kind,
        count,
        found["rate"],
        found["wall_s"],
        found["cpu_s"],
        found["queued_s"],
        found["failed"] / found["done"],
        len(found["checksums"]),
        worker_mib,
        found.get("on_loop_s"),
    )


class PeakMemory:
    """The peak memory of a process without its descendants, while its calls run."""

    def __init__(self, pid: int) -> None:
        self.mib = memory_mib(pid)
        self._pid = pid
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._has_ended.wait(PEAK_EVERY_S):
            if (mib := memory_mib(self._pid)) is not None:
                self.mib = max(mib, self.mib or 0.0)


def request(
    child: CallingProcess, kind: str, count: int, seconds: float, margin_s: float = MARGIN_S
) -> Any:
    """Measure calls of one kind for `seconds`.

    Raise ProbeTimeout if they take `margin_s` longer, RunError if the process ends or a pool fails,
    and MachineError if a pool cannot be created on this machine.
    """
    command = json.dumps({"kind": kind, "count": count, "seconds": seconds})
    try:
        found = child.request(command, seconds + margin_s)
    except StartError as error:
        workers = f", with {count} {kind}" if kind in (THREADS, PROCESSES) else ""
        error_type = ProbeTimeout if isinstance(error, CallTimeout) else RunError
        remedy = resource_limits.or_raise_memory("fix the function first")
        raise error_type(f"{error}{workers}", remedy) from error
    if "error" in found and "rate" not in found:
        is_machine = found.get("exit_code") == MachineError.exit_code
        raise (MachineError if is_machine else RunError)(str(found["error"]))
    return found


def _cpu_s(upstream: ProcessTree | None) -> float:
    """Return the CPU time of an upstream so far in s; 0 without one, or if it is unknown."""
    return 0.0 if upstream is None else upstream.cpu_s() or 0.0


def _pids(child: CallingProcess) -> set[int]:
    """Return the pids of the probe's process and of its descendants."""
    return {process.pid for process in tree(child.pid)}


def memory_mib(pid: int) -> float | None:
    """Return the memory (PSS) of a process without its descendants; None if it is unknown."""
    return next(map(pss_mib, tree(pid)[:1]), None)


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; empty if it has ended."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []
