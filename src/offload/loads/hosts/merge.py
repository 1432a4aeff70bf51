"""Merge the raw samples of all hosts into the figures of one load.

Samples are pooled, and every figure is computed from all of them: a percentile is never computed
from percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.flags import Flag
from offload.loads import HostRun, Load, LoadResult
from offload.loads.engine.figures.samples import Samples
from offload.loads.engine.figures.summary import CountedTime, summary
from offload.loads.engine.shared_state import AgreedTimes
from offload.loads.hosts import clock_offset
from offload.loads.hosts.clock_offset import ClockOffset

COARSE = 0.01  # share of the window, above which an error of a clock or of a start is flagged
RESPONDED = ("body", "4xx", "5xx")  # failures that are responses


@dataclass(frozen=True)
class HostResult:
    """What one host measured: the samples of its processes, and its clock before and after.

    `samples` is None if the host failed; then `run.problem` is the reason.
    """

    run: HostRun
    before: ClockOffset
    after: ClockOffset | None = None
    samples: Sequence[Samples] | None = None


@dataclass(frozen=True)
class MergedLoad:
    """The figures of all hosts, with what is known about each; see `LoadRun`."""

    result: LoadResult
    hosts: tuple[HostRun, ...]
    received: int | None
    unanswered: int | None


def merge(load: Load, times: AgreedTimes, hosts: Sequence[HostResult]) -> MergedLoad:
    """Merge what the hosts measured; the figures are those of the hosts that did not fail."""
    known = [host for host in hosts if host.samples is not None]
    lost = [host for host in hosts if host.samples is None]
    runs = tuple(_describe(host, times) for host in hosts)
    if not known:
        problem = "; ".join(f"host {run.host}: {run.problem}" for run in runs)
        return MergedLoad(LoadResult(problem=problem), runs, None, None)
    parts = [part for host in known for part in _with_clock(host)]
    window = _window(times, parts)
    users = sum(host.run.users for host in known)
    result = summary(replace(load, users=users), window, parts)
    flags = (*_lost_flags(lost, known), *_clock_flags(known, window), *_start_flags(runs, window))
    received = unanswered = None
    if not lost:
        failed = [kind for part in parts for kind, _, _ in part.failed]
        received = sum(len(part.ended) for part in parts) + failed.count("body")
        unanswered = sum(len(part.unfinished) for part in parts)
        unanswered += sum(kind not in RESPONDED for kind in failed)
    return MergedLoad(replace(result, notes=result.notes + flags), runs, received, unanswered)


def _with_clock(host: HostResult) -> list[Samples]:
    """Return the samples of a host with its clock; their problems name the host."""
    clock = clock_offset.between(host.before, host.after)
    return [
        replace(
            part,
            clock=clock,
            problem=part.problem and f"host {host.run.host}: {part.problem}",
        )
        for part in host.samples or ()
    ]


def _window(times: AgreedTimes, parts: Sequence[Samples]) -> CountedTime:
    """Return the agreed window; for a number of requests it lasts until the last process ends."""
    ended = times.window_ended
    if ended is None:
        return CountedTime(
            times.window_started, max(part.clock.reference(part.over) for part in parts), False
        )
    return CountedTime(times.window_started, ended, is_own=True)


def _describe(host: HostResult, times: AgreedTimes) -> HostRun:
    """Return the facts of a host with its clock and its counts."""
    bounds = [each.bound_s for each in (host.before, host.after) if each is not None]
    run = replace(
        host.run,
        ahead_s=round(host.before.ahead_s, 9),
        ahead_after_s=None if host.after is None else round(host.after.ahead_s, 9),
        bound_s=round(max(bounds), 9),
    )
    if host.samples is None:
        return run
    busy = [part.busy for part in host.samples]
    length = None if times.window_ended is None else times.window_ended - times.window_started
    is_known = length is not None and None not in busy
    return replace(
        run,
        completed=sum(len(part.ended) for part in host.samples),
        failed=sum(len(part.failed) for part in host.samples),
        late_s=_start_delay_s(host, times),
        cpu_s=round(math.fsum(each or 0.0 for each in busy) * (length or 0), 6)
        if is_known
        else None,
    )


def _start_delay_s(host: HostResult, times: AgreedTimes) -> float | None:
    """Return how much later than agreed a host sent its first request; None if it sent none."""
    first = [
        start
        for part in host.samples or ()
        for start in (*part.started[:1], *(f[1] for f in part.failed[:1]), *part.unfinished[:1])
    ]
    delays = [each for part in host.samples or () for each in part.late[:1]]
    if delays:  # an open loop: requests start when they are scheduled
        return round(max(delays), 6)
    if not first:
        return None
    return round(min(first) - host.before.clock.own(times.start), 6)


def _lost_flags(lost: Sequence[HostResult], known: Sequence[HostResult]) -> list[Flag]:
    others = ", ".join(host.run.host for host in known)
    return [
        Flag(
            "hosts",
            f"host {host.run.host} failed ({host.run.problem}): the figures are those of {others}",
            "repair it and measure again",
        )
        for host in lost
    ]


def _clock_flags(known: Sequence[HostResult], window: CountedTime) -> list[Flag]:
    found = []
    for host in known:
        name, after = host.run.host, host.after
        bound = max(host.before.bound_s, 0.0 if after is None else after.bound_s)
        if bound > COARSE * window.length:
            what = f"the clock of host {name} is only known to +-{1000 * bound:.1f} ms"
            found.append(Flag("clock", what, "measure for longer"))
        if after is None:
            what = f"the clock of host {name} was not measured after the load"
            found.append(Flag("clock", what, "measure again"))
        elif clock_offset.has_jumped(host.before, after):
            change = 1000 * (after.ahead_s - host.before.ahead_s)
            what = f"the clock of host {name} changed by {change:+.1f} ms during the load"
            found.append(Flag("clock", what, "measure again"))
    return found


def _start_flags(runs: Sequence[HostRun], window: CountedTime) -> list[Flag]:
    return [
        Flag("start", f"host {run.host} started {1000 * run.late_s:.0f} ms late", "measure again")
        for run in runs
        if run.late_s is not None and run.late_s > COARSE * window.length
    ]
