"""Measure the probe of a task: its calls alone, on a loop, in threads and in processes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from offload import cores, resource_limits
from offload.bench.advice.inputs import probe_points
from offload.bench.advice.inputs.call_cost import CallCost
from offload.bench.advice.inputs.probe import (
    ALONE,
    FIRST,
    PROCESSES,
    THREADS,
    Point,
    Probe,
    ProcessCost,
)
from offload.bench.advice.inputs.probe_points import (
    COROUTINE_MARGIN_S,
    POINT_S,
    EndlessCalls,
    Pass,
    ProbeTimeout,
    request,
)
from offload.bench.target import calling_process
from offload.bench.target.calling_process import CallingProcess
from offload.bench.telemetry.gil_sampler import GilSampler
from offload.bench.telemetry.process_tree import ProcessTree
from offload.bench.telemetry.speed import machine_speed
from offload.errors import RunError
from offload.suites import Case
from offload.upstream import Upstream

ALONE_S = 1.5  # duration in s of the calls of one worker
NEEDS_MORE_CALLS = 0.5  # `CallCost.variation` from which a mean needs more calls; a guess
SLOWEST_S = 5.0  # time of one call, above which the probe would take too long
ALONE_MARGIN_S = 20.0  # s beyond ALONE_S, in which three calls of SLOWEST_S end
CACHES_MIB = 4.0  # growth during the probe up to which caches explain it; a guess
CONNECTIONS = "connections"


class InterruptedProbe(KeyboardInterrupt):
    """An interrupt after calls alone were measured; `probe` has the complete passes until then."""

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self.probe = probe


def measure(case: Case, upstream: Upstream | None, users: int) -> Probe:
    """Probe the task of a case; raise UserError if it cannot be imported or always fails.

    `upstream` is the one that the task needs, if any. Raise RunError if a call takes more than
    SLOWEST_S, and InterruptedProbe after an interrupt if what is known suffices for a prediction:
    for a coroutine, one complete pass.
    """
    try:
        return _measure(case, upstream, users)
    except EndlessCalls:
        found = _measure(case, upstream, users, with_threads=False)
        waited_s = COROUTINE_MARGIN_S
        endless = Point(
            THREADS, found.cores, 1 / waited_s, waited_s, 0.0, 0.0, failed=1.0, results=0
        )
        return replace(found, points=(*found.points, endless))


def _measure(case: Case, upstream: Upstream | None, users: int, with_threads: bool = True) -> Probe:
    """Probe the task; raise EndlessCalls if calls of a coroutine in threads do not end."""
    speed_s = machine_speed.measure().python_s
    passes: list[Pass] = []
    opened, is_interrupted = None, False
    with _start(case, upstream) as child:
        facts, imported_mib = child.facts, probe_points.memory_mib(child.pid)
        first = request(child, FIRST, 1, 0.0)
        is_coroutine = bool(first["is_coroutine"])
        before_mib = probe_points.memory_mib(child.pid)
        alone, hold = _alone(case, child)
        _check(case, alone)
        call = _call_cost(alone, hold)
        start_s = facts["import_s"] + max(0.0, first["wall_s"] - call.wall_s)
        after_mib = probe_points.memory_mib(child.pid)
        upstream_tree = None if upstream is None else ProcessTree(upstream.pid)
        try:
            for found in probe_points.measure(
                child, call, start_s, is_coroutine, users, upstream_tree, with_threads
            ):
                passes.append(found)
            # a new loop, in which a coroutine would run here, needs connections of its own
            if not is_coroutine:
                opened = request(child, CONNECTIONS, 1, 0.0)["connections"]
        except KeyboardInterrupt:
            if is_coroutine and not passes:
                raise
            is_interrupted = True
    means = probe_points.means(passes)
    call = _with_more_calls(call, alone["done"], means, len(passes))
    calls = sum(each.calls for each in passes)
    probe = Probe(
        task=case.task,
        python=str(facts["python"]),
        gil_enabled=bool(alone["gil_enabled"]),
        is_coroutine=is_coroutine,
        cores=cores.available(),
        call=replace(call, connections=opened),
        process=ProcessCost(
            import_s=float(facts["import_s"]),
            first_s=float(first["wall_s"]),
            base_mib=after_mib,
            leak_mib=_growth(before_mib, after_mib, alone["done"]),
            threads=int(alone["threads"]) - 1,
            imported_mib=imported_mib,
        ),
        python_s=statistics.fmean([speed_s, *(s for each in passes for s in each.speeds_s)]),
        points=means,
        # a change of the machine's speed may increase one
        crowding=max(1.0, min((each.crowding for each in passes), default=1.0)),
        upstream_cpu_s=sum(each.upstream_cpu_s for each in passes) / calls if calls else 0.0,
        quota=_quota(),
    )
    if is_interrupted:
        raise InterruptedProbe(probe)
    return probe


def measure_busy_cpu_s(case: Case, upstream: Upstream | None, processes: int) -> Generator[float]:
    """Yield the CPU time of a call in s while `processes` processes call the task; raise UserError.

    Each value is measured when it is requested; meanwhile the processes wait. Close the generator
    to end them.
    """
    with _start(case, upstream) as child:
        request(child, FIRST, 1, 0.0)
        while True:
            yield probe_points.point(child, PROCESSES, processes).cpu_s


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


def _check(case: Case, alone: Mapping[str, Any]) -> None:
    """Raise RunError if every call failed, or if a call takes more than SLOWEST_S."""
    if alone["failed"] == alone["done"]:
        remedy = resource_limits.or_raise_memory("fix the function first")
        raise RunError(f"every call failed: {alone['error']}", remedy)
    if alone["wall_s"] > SLOWEST_S:
        raise _too_slow(case, f"{alone['wall_s']:.1f} s")


def _too_slow(case: Case, seconds: str) -> RunError:
    """Return the error for a task whose calls take too long."""
    fix = f"compare strategies yourself: offload compare 3/{case.task} 4/{case.task} users=2"
    return RunError(f"one call of {case.task} takes {seconds}, too long to probe", fix)


def _with_more_calls(call: CallCost, calls: int, points: Sequence[Point], passes: int) -> CallCost:
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


def _growth(before: float | None, after: float | None, calls: int) -> float | None:
    """Return the growth per call in MiB; 0 if caches may explain it, and None if it is unknown."""
    if before is None or after is None:
        return None
    return (after - before) / calls if after - before > CACHES_MIB else 0.0
