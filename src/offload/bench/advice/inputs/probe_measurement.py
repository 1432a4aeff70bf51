"""Measure the probe of a task: its calls in one process, then in threads, processes and a loop."""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import psutil

from offload import cores
from offload.bench.advice.inputs.probe import (
    ALONE,
    FIRST,
    KEPT_PAGES,
    LOOP,
    PROCESSES,
    THREADS,
    CallCost,
    Point,
    Probe,
    ProcessCost,
)
from offload.bench.advice.strategies import MOST_WORKERS
from offload.bench.target import calling_process
from offload.bench.target.calling_process import CallingProcess
from offload.bench.telemetry.gil_sampler import GilSampler
from offload.bench.telemetry.process_tree import ProcessTree, pss_mib
from offload.bench.telemetry.speed import machine_speed
from offload.errors import RunError, StartError
from offload.suites import Case
from offload.upstream import Upstream

IMPORT_TIMEOUT_S = 30.0  # for the import of the task
MARGIN_S = 60.0  # added to the expected time of a measurement for its timeout
ALONE_S, POINT_S = 1.5, 0.7  # duration in s of the calls of one worker, and of several
PASSES = 2  # measurements of each number of workers; one if a call takes longer than POINT_S
NEEDS_MORE_CALLS = 0.5  # `CallCost.variation` from which a mean needs more calls; a guess
SLOWEST_S = 5.0  # time of one call, above which the probe would take too long
LONGEST_POINT_S = 5.0  # expected time of one call of each worker: limits their number; a guess
LONGEST_START_S = 6.0  # expected time in which processes import the task and call it: limits them
AT_ONCE = 0.8  # time alone over that of concurrent calls, above which they ran at once; a guess
CACHES_MIB = 4.0  # growth during the probe up to which caches explain it; a guess
CROWDING, CONNECTIONS = "crowding", "connections"


def measure(case: Case, upstream: Upstream | None, users: int) -> Probe:
    """Probe the task of a case; raise UserError if it cannot be imported or always fails.

    `upstream` is the one that the task needs, if any. Raise RunError if a call takes more than
    SLOWEST_S.
    """
    speeds = [machine_speed.measure().python_s]
    with _start(case, upstream) as child:
        facts = child.facts
        first = _call(child, FIRST, 1, 0.0)
        is_coroutine = bool(first["is_coroutine"])
        before_mib = _memory_mib(child.pid)
        alone, hold = _alone(child)
        _check(case, alone)
        call = _call_cost(alone, hold)
        start_s = facts["import_s"] + max(0.0, first["wall_s"] - call.wall_s)
        after_mib = _memory_mib(child.pid)
        upstream_tree = None if upstream is None else ProcessTree(upstream.pid)
        upstream_start_s = _cpu_s(upstream_tree)
        crowding: list[float] = []
        points: list[list[Point]] = []
        passes = PASSES if call.wall_s < POINT_S else 1
        for _ in range(passes):
            crowding.append(_call(child, CROWDING, cores.available(), 0.0)["crowding"])
            if points:  # the same numbers of workers again
                points.append([_point(child, each.kind, each.count) for each in points[0]])
            else:
                points.append([*_points(child, call, start_s, is_coroutine, users)])
            speeds += [machine_speed.measure().python_s for _ in points[-1]]
        upstream_cpu_s = _cpu_s(upstream_tree) - upstream_start_s
        # a new loop, in which a coroutine would run here, needs connections of its own
        opened = None if is_coroutine else _call(child, CONNECTIONS, 1, 0.0)["connections"]
        calls = sum(point.rate * POINT_S for each_pass in points for point in each_pass)
    means = tuple(_mean(same_point) for same_point in zip(*points, strict=True))
    return Probe(
        task=case.task,
        python=str(facts["python"]),
        gil_enabled=bool(alone["gil_enabled"]),
        is_coroutine=is_coroutine,
        cores=cores.available(),
        call=replace(_with_more_calls(call, alone["done"], means, passes), connections=opened),
        process=ProcessCost(
            import_s=float(facts["import_s"]),
            first_s=float(first["wall_s"]),
            base_mib=after_mib,
            leak_mib=_growth(before_mib, after_mib, alone["done"]),
            threads=int(alone["threads"]) - 1,
        ),
        python_s=statistics.fmean(speeds),
        points=means,
        crowding=max(1.0, min(crowding)),  # a change of the machine's speed may increase one
        upstream_cpu_s=upstream_cpu_s / calls,
        quota=_quota(),
    )


def measure_busy_cpu_s(case: Case, upstream: Upstream | None, processes: int) -> Generator[float]:
    """Yield the CPU time of a call in s while `processes` processes call the task; raise UserError.

    Each value is measured when it is requested; meanwhile the processes wait. Close the generator
    to end them.
    """
    with _start(case, upstream) as child:
        _call(child, FIRST, 1, 0.0)
        while True:
            yield _point(child, PROCESSES, processes).cpu_s


def _start(case: Case, upstream: Upstream | None) -> AbstractContextManager[CallingProcess]:
    return calling_process.start(
        "offload.serving.task_probe",
        case.task,
        python=case.python,
        path=case.path,
        environment={} if upstream is None else dict(upstream.environment()),
        ready_s=IMPORT_TIMEOUT_S,
    )


def _alone(child: CallingProcess) -> tuple[Any, float | None]:
    """Measure calls of one worker, and the share of their time in which the GIL is locked."""
    with GilSampler(child.facts) as sampler:
        began = time.monotonic()
        alone = _call(child, ALONE, 1, ALONE_S)
        ended = time.monotonic()
    return alone, sampler.between(began, ended).share if alone["gil_enabled"] else 0.0


def _cpu_s(tree: ProcessTree | None) -> float:
    """Return the CPU time of a process tree so far in s; 0 without a tree, or if it is unknown."""
    return 0.0 if tree is None else tree.cpu_s() or 0.0


def _quota() -> float | None:
    """Return how many CPUs can be used on average; None unless a quota limits them further."""
    capacity = cores.capacity()
    return capacity if capacity < cores.available() else None


def _call_cost(alone: Mapping[str, Any], hold: float | None) -> CallCost:
    """Return the cost of a call from calls of one worker; `hold` is that of `CallCost`.

    A quota stops all threads of a process, which counts as a wait for a CPU of each of them. So a
    call with a quota waits at most for the time in which it does not run.
    """
    queued_s = alone["queued_s"]
    if _quota() is not None:
        queued_s = min(queued_s, max(0.0, alone["wall_s"] - alone["cpu_s"]))
    return CallCost(
        wall_s=alone["wall_s"],
        cpu_s=alone["cpu_s"],
        queued_s=queued_s,
        variation=statistics.pstdev(alone["times"]) / statistics.fmean(alone["times"]),
        hold=hold,
        body_bytes=int(alone["body_bytes"]),
        results=len(alone["checksums"]),
        failed=alone["failed"] / alone["done"],
        error=alone["error"],
        switches=alone["switches"],
        page_faults=alone["page_faults"],
    )


def _call(child: CallingProcess, kind: str, count: int, seconds: float) -> Any:
    """Measure calls of one kind; raise RunError if the process ends or a pool fails."""
    command = json.dumps({"kind": kind, "count": count, "seconds": seconds})
    try:
        found = child.request(command, seconds + MARGIN_S)
    except StartError as error:
        workers = f", with {count} {kind}" if kind in (THREADS, PROCESSES) else ""
        raise RunError(f"{error}{workers}", "fix the function first") from error
    if "error" in found and "rate" not in found:
        raise RunError(str(found["error"]))
    return found


def _check(case: Case, alone: Mapping[str, Any]) -> None:
    """Raise RunError if every call failed, or if a call takes more than SLOWEST_S."""
    if alone["failed"] == alone["done"]:
        raise RunError(f"every call failed: {alone['error']}", "fix the function first")
    if alone["wall_s"] > SLOWEST_S:
        seconds = f"{alone['wall_s']:.1f} s"
        fix = f"compare strategies yourself: fab compare:3/{case.task},4/{case.task},quick=yes"
        raise RunError(f"one call of {case.task} takes {seconds}, too long to probe", fix)


def _points(
    child: CallingProcess, call: CallCost, start_s: float, is_coroutine: bool, users: int
) -> Iterator[Point]:
    """Measure threads and processes: one worker for each core, and as many as could be useful.

    `start_s` is how long a process takes for the import and for what its first call prepares.

    A coroutine is measured on one event loop, too, with as many concurrent calls as there are
    users. If a call has many page faults, processes that keep freed pages are measured, too.
    """
    available = cores.available()
    useful = useful_workers(call.wait_s, call.cpu_s, available, users)
    most = min(useful, MOST_WORKERS[THREADS])
    yield from _thread_points(child, call.wall_s, available, most)
    fitting = _most_processes(LONGEST_POINT_S, call.cpu_s, available)
    starting = _most_processes(LONGEST_START_S, start_s, available)
    for count in sorted({available, min(useful, 4 * available, fitting, starting)}):
        yield _point(child, PROCESSES, count)
        if count == available and call.has_many_page_faults:
            yield _point(child, KEPT_PAGES, count)
    if is_coroutine:
        yield _point(child, LOOP, users)


def _most_processes(limit_s: float, each_s: float, available: int) -> int:
    """Return how many processes compute for `each_s` within `limit_s`, at least one a core."""
    most = sys.maxsize if not each_s else int(limit_s * available / each_s)
    return max(available, most)


def _thread_points(child: CallingProcess, alone_s: float, first: int, most: int) -> Iterator[Point]:
    """Measure `first` threads, then more of them, up to `most`; a call alone takes `alone_s`."""
    count = first
    while True:
        yield (point := _point(child, THREADS, count))
        if (following := more_threads(point, alone_s, most)) <= count:
            return
        count = following


def more_threads(point: Point, alone_s: float, most: int) -> int:
    """Return the next number of threads to measure after a point, at most `most`.

    One call of each thread must fit into LONGEST_POINT_S. If the calls took hardly longer than
    alone, at least as many run at the same time as in this point. Otherwise they may run one after
    the other, such as with a lock.
    """
    at_once = point.count if alone_s >= AT_ONCE * point.wall_s else 1
    return min(most, int(at_once * LONGEST_POINT_S / alone_s))


def _with_more_calls(
    call: CallCost, calls: int, points: Sequence[Point], passes: int = PASSES
) -> CallCost:
    """Return the cost with the mean wait of more calls, if few calls do not show the mean.

    The other calls are those of one process for each core, which hardly wait for each other;
    threads also wait for the GIL.
    """
    few = [p for p in points if p.count == cores.available() and p.kind == PROCESSES]
    if call.variation < NEEDS_MORE_CALLS or not few:
        return call
    waits = [call.wait_s, *(max(0.0, p.wall_s - p.cpu_s - p.queued_s) for p in few)]
    weights = [calls, *(passes * POINT_S * point.rate for point in few)]
    wall_s = call.wall_s + statistics.fmean(waits, weights) - call.wait_s
    hold = None if call.hold is None else call.held_s / wall_s
    return replace(call, wall_s=wall_s, hold=hold)


def _mean(points: Sequence[Point]) -> Point:
    """Return the mean of the same point in several passes: the machine's speed varies."""
    names = ("rate", "wall_s", "cpu_s", "queued_s", "failed")
    means = {name: statistics.fmean(getattr(point, name) for point in points) for name in names}
    results = max(point.results for point in points)
    return replace(points[0], results=results, **means)  # type: ignore[arg-type]


def useful_workers(wait_s: float, cpu_s: float, available: int, users: int) -> int:
    """Return the number of workers that use all cores, with a reserve, at most one for each user.

    It is 2 x cores x (wait + CPU) / CPU, but at least 2. Half of it uses all cores if nothing else
    limits the rate.
    """
    wall_s = wait_s + cpu_s
    return max(2, min(users, math.ceil(2 * available * wall_s / max(cpu_s, wall_s / users))))


def _point(child: CallingProcess, kind: str, count: int) -> Point:
    """Measure calls of `count` workers; for processes, also the memory that each of them adds."""
    idle = {p.pid for p in _tree(child.pid)}
    found = _call(child, kind, count, POINT_S)
    worker_mib = None
    if kind == PROCESSES:
        added = [p for p in _tree(child.pid) if p.pid not in idle]
        known = [mib for p in added if (mib := pss_mib(p)) is not None]
        worker_mib = sum(known) / count if known else None
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
    )


def _tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; empty if it has ended."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _memory_mib(pid: int) -> float | None:
    """Return the memory (PSS) of a process without its descendants; None if it is unknown."""
    known = [pss_mib(process) for process in _tree(pid)[:1]]
    return known[0] if known else None


def _growth(before: float | None, after: float | None, calls: int) -> float | None:
    """Return the growth per call in MiB; 0 if caches may explain it, and None if it is unknown."""
    if before is None or after is None:
        return None
    return (after - before) / calls if after - before > CACHES_MIB else 0.0
