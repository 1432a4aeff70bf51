"""The causes that limit an application, decided from measured figures; each rule is here only.

All reports ask here: tables, the cost of the GIL, and advice. docs/advice.rst has the source of
each threshold. Unknown figures decide nothing: a cause is named only if all the figures that its
rule needs are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from offload.bench.analysis import application_signs
from offload.bench.analysis.application_signs import Signs, median
from offload.bench.records.record import Record

# Guesses, unless a source is named.
BLOCKED_S = 0.02  # s: two intervals of the loop's timer; asyncio itself warns from 0.1 s on
BLOCKED_SHARE = 0.5  # of the time: the loop has nothing left to do it in
LATE_S = 0.005  # s of lag for BLOCKED_SHARE of the time: half an interval of the loop's timer
FULL = 0.1  # share of time with all threads in use
SATURATED = 0.9  # utilisation of the GIL, or of the CPUs: queueing grows without bound near 1
GIL_HELD_S = 0.005  # s per request: CPython's switch interval, sys.getswitchinterval()
ONE_CORE = (0.85, 1.25)  # cores that a process uses whose threads take turns
IDLE = 0.5  # cores per process: below, nothing here computes
WAITS = 0.5  # share of the time inside that is no CPU time
STRETCHED = 2.0  # times as long as a single request: something of which there is too little


class Kind(StrEnum):
    """What limits an application. NOTHING: only the CPU or the number of users may."""

    GIL_IMPORT = "gil_import"
    LOOP_BLOCKED = "loop_blocked"
    THREAD_LIMIT = "thread_limit"
    GIL_SATURATED = "gil_saturated"
    WAITS_ELSEWHERE = "waits_elsewhere"
    CPU_SATURATED = "cpu_saturated"
    NOTHING = "nothing"


# Limits that each process has of its own: more processes than cores may gain.
PER_PROCESS = (Kind.LOOP_BLOCKED, Kind.THREAD_LIMIT, Kind.WAITS_ELSEWHERE)


@dataclass(frozen=True)
class Cause:
    """A cause with the figure that shows it, and the threshold that the figure reached.

    The unit of `value` and `threshold` depends on the kind: seconds without a pause
    (LOOP_BLOCKED), share of the time (THREAD_LIMIT, GIL_SATURATED) or of the machine's CPU
    (CPU_SATURATED), times as long as a single request (WAITS_ELSEWHERE); None for the others.
    `route` is the route that blocks; None if none does, but another task: then `value` is the 99th
    percentile of the loop's lag. `module` is the one that switched the GIL on, `limit` the number
    of threads, or about how many requests the thing waited for handles at once. `gil_s` is the time
    that a request holds the GIL.
    """

    kind: Kind
    value: float | None = None
    threshold: float | None = None
    route: str | None = None
    module: str | None = None
    limit: int | None = None
    gil_s: float | None = None


@dataclass(frozen=True)
class Figures:
    """The figures of one configuration under load that the rules need; None is unknown.

    `rate` is in requests/s, `alone_s` the response time of a single request. `cores_used` is the
    CPU time of all processes in each second, and `busy_cores` that and their wait for a CPU: a
    machine that others use makes no process idle. `threads_used` are the most of anyio's threads,
    and `loop_lag_s` is the median lag of the event loop. `cores` are those of the machine.
    """

    signs: Signs
    processes: int
    rate: float | None
    alone_s: float | None
    cores_used: float | None
    busy_cores: float | None
    threads_used: int | None
    loop_lag_s: float | None
    gil_enabled: bool | None
    is_asgi: bool
    cores: int | None

    @property
    def cores_each(self) -> float | None:
        """The cores that each process uses."""
        return None if self.cores_used is None else self.cores_used / self.processes

    @property
    def busy_each(self) -> float | None:
        """The cores that each process uses, or waits for."""
        return None if self.busy_cores is None else self.busy_cores / self.processes

    @property
    def gil_s(self) -> float | None:
        """The time for which a request holds the GIL, or with an unknown GIL uses the CPU."""
        used = self.signs.gil_utilisation
        share = self.cores_each if used is None else used
        if share is None or not self.rate:
            return None
        return share / (self.rate / self.processes)


def of_case(records: Sequence[Record]) -> list[Cause]:
    """Return the causes that limit a case by its records; empty if unknown, or a task's."""
    found = figures(records)
    return [] if found is None else find(found)


def figures(records: Sequence[Record]) -> Figures | None:
    """Return the figures of a case, medians of its records; None if none has an application."""
    known = [r for r in records if r.problem is None and r.application.kind is not None]
    signs = application_signs.of_case(known)
    if signs is None:
        return None
    last = known[-1]
    enabled, cores = last.server.interpreter.get("gil_enabled"), last.environment.get("cores")
    return Figures(
        signs=signs,
        processes=max(r.application.processes or 1 for r in known),
        rate=median([r.result.rate for r in known]),
        alone_s=median([r.baseline.alone_s for r in known]),
        cores_used=median([r.resources.cores_used for r in known]),
        busy_cores=median([_busy_cores(r) for r in known]),
        threads_used=median([r.application.limiter.used for r in known]),
        loop_lag_s=median([_loop_lag_s(r) for r in known]),
        gil_enabled=None if enabled is None else bool(enabled),
        is_asgi=last.application.kind == "asgi",
        cores=cores if isinstance(cores, int) else None,
    )


def _busy_cores(record: Record) -> float | None:
    used, elapsed_s = record.resources, record.result.elapsed_s
    if used.cores_used is None or not elapsed_s:
        return None
    return used.cores_used + (used.queued_s or 0.0) / elapsed_s


def _loop_lag_s(record: Record) -> float | None:
    lag_ms = record.tasks.loop_lag_p50_ms
    return None if lag_ms is None else lag_ms / 1000


def is_gil_full(utilisation: float | None) -> bool:
    """Whether the GIL is held for so much of the time that threads wait for it."""
    return utilisation is not None and utilisation >= SATURATED


def find(of: Figures) -> list[Cause]:
    """Return the causes, the first one to fix first; [Cause(NOTHING)] if there is none.

    Empty if none is found, and figures that would show one are unknown.
    """
    rules = (
        _gil_import,
        _loop_blocked,
        _gil_saturated,
        _thread_limit,
        _waits_elsewhere,
        _cpu_saturated,
    )
    found = [cause for rule in rules if (cause := rule(of)) is not None]
    known = of.rate, of.alone_s, of.busy_cores, of.signs.wait_share
    if not found and (None in known or _is_gil_unknown(of)):
        return []
    return found or [Cause(Kind.NOTHING)]


def _gil_import(of: Figures) -> Cause | None:
    """A module enabled the GIL in a free-threaded build."""
    if of.signs.gil_enabled_by is None:
        return None
    return Cause(Kind.GIL_IMPORT, module=of.signs.gil_enabled_by)


def _loop_blocked(of: Figures) -> Cause | None:
    """A route runs on the event loop for long, and so for most of the time; or another task does.

    Requests in threads that hold the GIL delay the loop, too: then the loop is not to blame.
    """
    if not of.is_asgi or (of.threads_used or 0) > 1:
        return None
    run_s = of.signs.loop_blocked_by_s or 0.0
    share = (of.rate or 0.0) / of.processes * run_s
    if run_s >= BLOCKED_S and share >= BLOCKED_SHARE:
        return Cause(Kind.LOOP_BLOCKED, run_s, BLOCKED_S, route=of.signs.loop_blocked_by)
    return _loop_blocked_elsewhere(of)


def _loop_blocked_elsewhere(of: Figures) -> Cause | None:
    """The loop is blocked for most of the time, by no route, and no CPU is used meanwhile.

    Its lag is what remains of a block: the longest lags are as long as a block, and the median is
    above 0 if blocks take half of the time. A loop that computes is late, too, because many
    requests wait for it.
    """
    median_s, longest_s = of.loop_lag_s, of.signs.loop_blocked_s
    if median_s is None or median_s < LATE_S or longest_s is None or longest_s < BLOCKED_S:
        return None
    return Cause(Kind.LOOP_BLOCKED, longest_s, BLOCKED_S) if _is_idle(of) else None


def _is_idle(of: Figures) -> bool:
    """Whether each process hardly uses or waits for a CPU; False if that is unknown."""
    is_known_idle = of.busy_each is not None and of.busy_each < IDLE
    return is_known_idle and not is_gil_full(of.signs.gil_utilisation)


def _gil_saturated(of: Figures) -> Cause | None:
    """The GIL is always held, by requests that hold it longer than a thread waits for it.

    If the sampler had no free core, a process of several threads that uses one of several cores
    shows the same. Short requests saturate the GIL, too, at a rate that is no problem.
    """
    if of.gil_enabled is False or of.gil_s is None or of.gil_s < GIL_HELD_S:
        return None
    used = of.signs.gil_utilisation
    if used is not None:
        return _gil(of, used, SATURATED) if is_gil_full(used) else None
    low, high = ONE_CORE
    share, cores = of.cores_each, of.cores
    is_one_core = share is not None and low <= share <= high
    return _gil(of, share, low) if is_one_core and (cores or 0) > of.processes else None


def _is_gil_unknown(of: Figures) -> bool:
    """Whether the GIL may be the limit of a process that had not the CPU to show it."""
    if of.gil_enabled is False or of.signs.gil_utilisation is not None or of.busy_each is None:
        return False
    low = ONE_CORE[0]
    return (of.gil_s or 0.0) >= GIL_HELD_S and of.busy_each >= low > (of.cores_each or 0.0)


def _gil(of: Figures, value: float | None, threshold: float) -> Cause:
    return Cause(Kind.GIL_SATURATED, value, threshold, gil_s=of.gil_s)


def _thread_limit(of: Figures) -> Cause | None:
    """All of anyio's threads are in use, by requests that take as long in them as alone.

    If they take longer, more threads would wait for the same thing: the GIL, the CPU, a pool.
    """
    full, total = of.signs.limiter_full, of.signs.limiter_total
    if full is None or total is None or full < FULL or not of.rate or not of.alone_s:
        return None
    in_thread_s = total * of.processes / of.rate
    if in_thread_s >= STRETCHED * of.alone_s or _gil_saturated(of) is not None:
        return None
    return Cause(Kind.THREAD_LIMIT, full, FULL, limit=total)


def _waits_elsewhere(of: Figures) -> Cause | None:
    """Requests wait, longer than a single one, while the process and its GIL are idle.

    Little's law with the time of a single request is how many requests are served at once.
    """
    wait_share, stretch = of.signs.wait_share, of.signs.stretch
    if wait_share is None or stretch is None or not of.rate or not of.alone_s:
        return None
    if _loop_blocked(of) is not None or _thread_limit(of) is not None:
        return None
    if not _is_idle(of) or wait_share < WAITS or stretch < STRETCHED:
        return None
    at_once = max(1, round(of.rate * of.alone_s))
    return Cause(Kind.WAITS_ELSEWHERE, stretch, STRETCHED, limit=at_once)


def _cpu_saturated(of: Figures) -> Cause | None:
    """The server uses nearly all of the machine's CPU."""
    used = of.signs.cpu_utilisation
    if used is None or used < SATURATED:
        return None
    return Cause(Kind.CPU_SATURATED, used, SATURATED)
