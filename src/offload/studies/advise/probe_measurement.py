"""Measure the probe of a task: its calls alone, on a loop, in threads and in processes."""

from __future__ import annotations

import json
import math
import statistics
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from offload import resource_limits
from offload.causes import diagnosis, hangs, who
from offload.engine import calling_process
from offload.engine.application import HotLine, Stall
from offload.engine.calling_process import CallingProcess, CallTimeout
from offload.engine.gil_sampler import GilSampler
from offload.engine.host import measure_speed
from offload.engine.hot_lines import read_kept_lines
from offload.engine.processes import pss_mib, tree, uss_mib
from offload.engine.record import dataclass_from
from offload.errors import MachineError, RunError, StartError
from offload.studies.advise.probe import (
    ALONE,
    FIRST,
    KEPT,
    LOOP,
    POINT_S,
    PROCESSES,
    THREADS,
    Call,
    Point,
    Probe,
)
from offload.suites import Case
from offload.upstream import Upstream

ALONE_S = 1.5  # duration in s of the calls of one worker
KEPT_S = 1.0  # duration in s of the calls of one worker whose memory is traced
NEEDS_MORE_CALLS = 0.5  # `Call.variation` from which a mean needs more calls; a guess
SLOWEST_S = 5.0  # time of one call, above which the probe would take too long
ALONE_MARGIN_S = 20.0  # s beyond ALONE_S, in which three calls of SLOWEST_S end
MARGIN_S = 60.0  # added to the expected time of a measurement for its timeout
COROUTINE_MARGIN_S = 10.0  # the same for a coroutine in threads, where it may wait forever
LONGEST_POINT_S = 5.0  # expected time of one call of each worker: limits their number; a guess
AT_ONCE = 0.8  # time alone over that of concurrent calls, above which they ran at once; a guess
MOST_THREADS = 64
CACHES_MIB = 4.0  # growth during the probe up to which caches explain it; a guess
LEAST_LEAK_MIB = 0.1  # growth per call from which a smaller growth may be a leak; a guess
LARGE_MIB = 256.0  # growth that is not measured again: it would use up the memory
TRACED = 15.0  # times as long as without a trace
CONFIRMED = 2  # measurements in which a leak must go on
STEADY = 0.5  # share of the growth per call that goes on if it is a leak; a guess
LOADED_S = 20.0  # s of load of one server in a race
FASTEST_S = 0.5e-3  # s of a request to a function that returns at once
MOST_LEAKED = 0.5  # share of the memory that a load may leak
PEAK_EVERY_S = 0.02  # s between two readings of the memory of calls in threads


class ProbeTimeout(RunError):
    """Calls did not end in time."""


class EndlessCalls(ProbeTimeout):
    """Calls of a coroutine in threads did not end in time.

    In threads each call has a loop of its own, which no other one can wake up.
    """


def measure(
    case: Case, upstream: Upstream | None, users: int, most_mib: float | None = None
) -> Probe:
    """Probe the task of a case; raise UserError if it cannot be imported or always fails.

    `upstream` is the one that the task needs, if any, and `users` limits the calls at once. Raise
    RunError if a call takes more than SLOWEST_S, or leaks too much for a load: its message has the
    number of calls until `most_mib`, or the memory of this machine, are reached.
    """
    try:
        return _measure(case, upstream, users, most_mib)
    except EndlessCalls:
        found = _measure(case, upstream, users, most_mib, with_threads=False)
        waited_s = COROUTINE_MARGIN_S
        endless = Point(
            THREADS, found.cores, 1 / waited_s, waited_s, 0.0, 0.0, failed=1.0, results=0
        )
        return replace(found, points=(*found.points, endless))


def _measure(
    case: Case,
    upstream: Upstream | None,
    users: int,
    most_mib: float | None,
    with_threads: bool = True,
) -> Probe:
    """Probe the task; raise EndlessCalls if calls of a coroutine in threads do not end."""
    speed_s = measure_speed().python_s
    with _start(case, upstream) as child:
        imported_mib = memory_mib(child.pid)
        first = request(child, FIRST, 1, 0.0)
        is_coroutine = bool(first["is_coroutine"])
        before_mib = memory_mib(child.pid)
        alone, hold = _alone(case, child)
        _check(case, alone)
        call = _call(alone, hold)
        after_mib = memory_mib(child.pid)
        leak_mib = _leak(child, before_mib, after_mib, alone["done"])
        lines = _kept(child, call, leak_mib) if leak_mib else ()
        _check_leak(case, call, leak_mib, most_mib, lines)
        points = tuple(_points(child, call, is_coroutine, users, with_threads))
    return Probe(
        task=case.task,
        is_coroutine=is_coroutine,
        cores=resource_limits.cpu_count(),
        call=_with_more_calls(call, alone["done"], points),
        python_s=statistics.fmean((speed_s, measure_speed().python_s)),
        points=points,
        imported_mib=imported_mib,
        leak_mib=leak_mib,
        quota=_quota(),
        limit_mib=resource_limits.memory_mib(),
        is_json=bool(first["is_json"]),
        kept=lines,
    )


def _start(case: Case, upstream: Upstream | None) -> AbstractContextManager[CallingProcess]:
    return calling_process.start(
        "offload.serving.task_probe",
        case.task,
        python=case.python,
        path=case.path,
        environment={} if upstream is None else dict(upstream.environment()),
        ready_s=calling_process.IMPORT_S,
    )


def _alone(case: Case, child: CallingProcess) -> tuple[Any, float | None]:
    """Measure calls of one worker, and the share of their time in which the GIL is locked.

    Raise RunError if a call takes more than SLOWEST_S.
    """
    with GilSampler(child.facts) as sampler:
        began = time.monotonic()
        try:
            alone = request(child, ALONE, 1, ALONE_S, ALONE_MARGIN_S)
        except ProbeTimeout as error:
            raise _too_slow(case, f"more than {SLOWEST_S:.0f} s") from error
        ended = time.monotonic()
    return alone, sampler.between(began, ended).share if alone["gil_enabled"] else 0.0


def _quota() -> float | None:
    """Return how many CPUs can be used on average; None unless a quota limits them further."""
    capacity = resource_limits.cpu_capacity()
    return capacity if capacity < resource_limits.cpu_count() else None


def _call(alone: Mapping[str, Any], hold: float | None) -> Call:
    """Return the cost of a call from calls of one worker; `hold` is that of `Call`.

    A quota stops all threads of a process, which counts as a wait for a CPU of each of them. So a
    call with a quota waits at most for the time in which it does not run.
    """
    queued_s = alone["queued_s"]
    if _quota() is not None:
        queued_s = min(queued_s, max(0.0, alone["wall_s"] - alone["cpu_s"]))
    return Call(
        wall_s=alone["wall_s"],
        cpu_s=alone["cpu_s"],
        queued_s=queued_s,
        variation=statistics.pstdev(alone["times"]) / statistics.fmean(alone["times"]),
        hold=hold,
        results=len(alone["checksums"]),
        failed=alone["failed"] / alone["done"],
    )


def _check(case: Case, alone: Mapping[str, Any]) -> None:
    """Raise RunError if every call failed, or if a call takes more than SLOWEST_S."""
    if alone["failed"] == alone["done"]:
        remedy = resource_limits.or_raise_memory("fix the function first")
        raise RunError(f"every call failed: {alone['error']}", remedy)
    if alone["wall_s"] > SLOWEST_S:
        raise _too_slow(case, f"{alone['wall_s']:.1f} s")


def _too_slow(case: Case, seconds: str) -> RunError:
    """Return the error for a task whose calls take too long."""
    fix = f"compare servers yourself: offload compare 3/{case.task} 4/{case.task} users=2"
    return RunError(f"one call of {case.task} takes {seconds}, too long to probe", fix)


def _with_more_calls(call: Call, calls: int, points: Sequence[Point]) -> Call:
    """Return the cost with the mean wait of more calls, if few calls do not show the mean.

    The other calls are those of one process for each core, which hardly wait for each other;
    threads also wait for the GIL.
    """
    few = [p for p in points if p.kind == PROCESSES]
    if call.variation < NEEDS_MORE_CALLS or not few:
        return call
    waits = [call.wait_s, *(max(0.0, p.wall_s - p.cpu_s - p.queued_s) for p in few)]
    weights = [calls, *(POINT_S * point.rate for point in few)]
    wall_s = call.wall_s + statistics.fmean(waits, weights) - call.wait_s
    hold = None if call.hold is None else call.held_s / wall_s
    return replace(call, wall_s=wall_s, hold=hold)


def _leak(
    child: CallingProcess, before: float | None, after: float | None, calls: int
) -> float | None:
    """Return the growth per call in MiB; 0 if caches may explain it, and None if it is unknown.

    Growth is measured again, twice: a leak goes on, while caches and the memory of libraries are
    full at some time.
    """
    if before is None or after is None:
        return None
    growth = after - before
    if growth <= min(CACHES_MIB, LEAST_LEAK_MIB * calls):
        return 0.0
    if growth >= LARGE_MIB:
        return growth / calls
    for _ in range(CONFIRMED):
        more = int(request(child, ALONE, 1, ALONE_S, ALONE_MARGIN_S)["done"])
        later = memory_mib(child.pid)
        if later is None or later - after < STEADY * more * growth / calls:
            return 0.0
        growth, calls, after = later - after, more, later
    return growth / calls


def _kept(child: CallingProcess, call: Call, leak_mib: float) -> tuple[HotLine, ...]:
    """Return the lines that allocate what a leak keeps; none if a traced call may take too long."""
    if TRACED * call.wall_s > ALONE_MARGIN_S:
        return ()
    found = request(child, KEPT, 1, KEPT_S, ALONE_MARGIN_S)
    return read_kept_lines([found], leak_mib * found["done"])


def _check_leak(
    case: Case,
    call: Call,
    leak_mib: float | None,
    most_mib: float | None,
    lines: Sequence[HotLine],
) -> None:
    """Raise RunError if servers of a function that leaks would use up the memory."""
    at_once = resource_limits.cpu_capacity() / max(call.cpu_s, FASTEST_S)
    calls = LOADED_S * min(MOST_THREADS / max(call.wall_s, FASTEST_S), at_once)
    limit_mib = resource_limits.memory_mib()
    if not leak_mib or calls * leak_mib < MOST_LEAKED * limit_mib:
        return
    limit_mib = min(limit_mib, most_mib or limit_mib)
    reaches = f"it reaches {limit_mib:.0f} MiB after {limit_mib / leak_mib:.0f} calls"
    what = f"{case.task} leaks {leak_mib:.2g} MiB a call: {reaches}"
    where = "".join(f"; {who.clause(line)}" for line in lines[:1])
    raise RunError(what, f"fix the leak first, it is too large for a load{where}")


def _points(
    child: CallingProcess, call: Call, is_coroutine: bool, users: int, with_threads: bool
) -> Iterator[Point]:
    """Measure threads and processes: one worker for each core, and as many threads as are useful.

    A coroutine is first measured on one event loop, with `users` calls at once, but at least two.
    """
    if is_coroutine:
        # Before threads: a lock of asyncio belongs to the first loop on which a call waits for it.
        # Then calls in threads fail; if threads were first, they could wait for it forever.
        yield point(child, LOOP, max(2, users))
    available, idle = resource_limits.cpu_count(), _pids(child)
    if with_threads:
        most = min(MOST_THREADS, useful_workers(call.wait_s, call.cpu_s, available, users))
        margin_s = COROUTINE_MARGIN_S if is_coroutine else MARGIN_S
        try:
            yield from _thread_points(child, call.wall_s, available, most, margin_s)
        except ProbeTimeout as error:
            if is_coroutine:
                raise EndlessCalls(error.what) from None
            raise
    yield point(child, PROCESSES, available, idle)


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
    idle: Collection[int] = (),
    margin_s: float = MARGIN_S,
) -> Point:
    """Measure calls of `count` workers, and the memory of new threads and processes.

    `idle` are the pids of the probe's processes that are no workers of this point.
    """
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
        found.get("error"),
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
    if "stall" in found:
        raise _own_pool_wait(found["stall"])
    if "error" in found and "rate" not in found:
        is_machine = found.get("exit_code") == MachineError.exit_code
        raise (MachineError if is_machine else RunError)(str(found["error"]))
    return found


def _own_pool_wait(found: Mapping[str, Any]) -> RunError:
    """Return the error for calls that wait for others in the queue of the same pool."""
    cause = hangs.own_pool_wait(dataclass_from(Stall, found).pools)
    assert cause is not None
    return RunError(f"calls do not end: {diagnosis.clause(cause, 1)}", diagnosis.remedy(cause))


def _pids(child: CallingProcess) -> set[int]:
    """Return the pids of the probe's process and of its descendants."""
    return {process.pid for process in tree(child.pid)}


def memory_mib(pid: int) -> float | None:
    """Return the memory (PSS) of a process without its descendants; None if it is unknown."""
    return next(map(pss_mib, tree(pid)[:1]), None)
