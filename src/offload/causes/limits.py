"""The causes that limit an application, found by rules from measured figures.

Tables, the report on the cost of the GIL, and advice all use these rules. lab/advice.rst has the
source of each threshold. A cause is only found if all the figures that its rule needs are known.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from offload.engine.record import HotLine, Record, Route
from offload.engine.who import BLOCKS

# Guesses, unless a source is named.
BLOCKED_S = 0.02  # s: two intervals of the loop's timer; asyncio itself warns from 0.1 s on
BLOCKED_SHARE = 0.5  # share of the time in which the loop is blocked
LATE_S = 0.005  # s of median lag: half an interval of the loop's timer
FULL = 0.1  # share of time with all threads in use
SATURATED = 0.9  # utilisation of the GIL, or of the CPUs: queueing grows without bound near 1
GIL_HELD_S = 0.005  # s per request: CPython's switch interval, sys.getswitchinterval()
ONE_CORE = (0.85, 1.25)  # cores used by a process whose threads wait for one GIL
IDLE = 0.5  # cores per process, below which it mostly waits
WAITS = 0.5  # share of the time inside the application that is not CPU time
STRETCHED = 2.0  # time under load over the time alone, above which a resource is too small


class Kind(StrEnum):
    """The limit of an application. NOTHING: at most the CPU or the number of users limits it."""

    GIL_IMPORT = "gil_import"
    LOOP_BLOCKED = "loop_blocked"
    THREAD_LIMIT = "thread_limit"
    GIL_SATURATED = "gil_saturated"
    WAITS_ELSEWHERE = "waits_elsewhere"
    CPU_SATURATED = "cpu_saturated"
    NOTHING = "nothing"


NOT_FIXABLE = {Kind.NOTHING, Kind.CPU_SATURATED}  # neither by a setting nor by another call
# Limits of each process: more processes than cores may increase the rate.
PER_PROCESS = (Kind.LOOP_BLOCKED, Kind.THREAD_LIMIT, Kind.WAITS_ELSEWHERE)


@dataclass(frozen=True)
class Cause:
    """A cause with the figure by which it was found, and the threshold of this figure.

    The unit of `value` and `threshold` depends on the kind: seconds without a pause
    (LOOP_BLOCKED), share of the time (THREAD_LIMIT, GIL_SATURATED) or of the machine's CPU
    (CPU_SATURATED), times as long as a single request (WAITS_ELSEWHERE); None for the others.
    `route` is the route that blocks the loop; None if another task does, in which case `value` is
    the 99th percentile of the loop's lag. `module` is the module that switched the GIL on. `limit`
    is the number of threads, or about how many requests the unknown resource handles at once.
    `gil_s` is the time for which a request holds the GIL. `line` is the line that blocks the loop,
    if the stacks of the server were sampled.
    """

    kind: Kind
    value: float | None = None
    threshold: float | None = None
    route: str | None = None
    module: str | None = None
    limit: int | None = None
    gil_s: float | None = None
    line: HotLine | None = None


@dataclass(frozen=True)
class Figures:
    """The figures of one configuration under load that the rules need; None is unknown.

    `rate` is in requests/s, `alone_s` the response time of a single request. `cores_used` is the
    CPU time of all processes per second. `busy_cores` also includes their wait for a CPU, so that a
    process is not regarded as idle because other programs use the machine. `threads_used` is the
    maximum number of anyio's threads in use, and `loop_lag_s` the median lag of the event loop.
    `cores` is the number of cores of the machine, and `hottest` the line of the application in
    which its threads or its loop spend most of their time.
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
    hottest: HotLine | None = None

    @property
    def cores_each(self) -> float | None:
        """The cores that each process uses."""
        return None if self.cores_used is None else self.cores_used / self.processes

    @property
    def busy_each(self) -> float | None:
        """The cores that each process uses or waits for."""
        return None if self.busy_cores is None else self.busy_cores / self.processes

    @property
    def gil_s(self) -> float | None:
        """The time for which a request holds the GIL, or if that is unknown, uses the CPU."""
        used = self.signs.gil_utilisation
        share = self.cores_each if used is None else used
        if share is None or not self.rate:
            return None
        return share / (self.rate / self.processes)


def of_case(records: Sequence[Record]) -> list[Cause]:
    """Return the causes that limit a case; empty if they are unknown, or the case has a task."""
    found = figures(records)
    return [] if found is None else find(found)


def figures(records: Sequence[Record]) -> Figures | None:
    """Return the figures of a case, as medians of its records; None without an application."""
    known = [r for r in records if r.problem is None and r.application.kind is not None]
    signs = signs_of_case(known)
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
        hottest=next((r.who.lines[0] for r in reversed(known) if r.who and r.who.lines), None),
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
    """Return the causes in the order in which to fix them; [Cause(NOTHING)] if there is none.

    Empty if no cause is found, but figures that a rule needs are unknown.
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
    """A route, or another task, blocks the event loop for long and for most of the time.

    Requests in threads that hold the GIL delay the loop, too; this is a different cause.
    """
    if not of.is_asgi or (of.threads_used or 0) > 1:
        return None
    run_s = of.signs.loop_blocked_by_s or 0.0
    share = (of.rate or 0.0) / of.processes * run_s
    if run_s >= BLOCKED_S and share >= BLOCKED_SHARE:
        return Cause(Kind.LOOP_BLOCKED, run_s, BLOCKED_S, route=of.signs.loop_blocked_by)
    return _loop_blocked_elsewhere(of)


def _loop_blocked_elsewhere(of: Figures) -> Cause | None:
    """The loop is blocked for most of the time, not by a route, and the process is idle.

    The sampled stacks show the line, however short its blocks are. Without them, a lag is the rest
    of a block after a timer is due: the longest lags are as long as a block, and the median is
    above 0 if blocks take half of the time. The process must be idle, because the loop of a busy
    one is also late.
    """
    median_s, longest_s = of.loop_lag_s, of.signs.loop_blocked_s
    line = of.hottest
    if line is not None and line.doing == BLOCKS and line.share >= BLOCKED_SHARE:
        return Cause(Kind.LOOP_BLOCKED, longest_s, line=line) if _is_idle(of) else None
    if median_s is None or median_s < LATE_S or longest_s is None or longest_s < BLOCKED_S:
        return None
    return Cause(Kind.LOOP_BLOCKED, longest_s, BLOCKED_S) if _is_idle(of) else None


def _is_idle(of: Figures) -> bool:
    """Whether each process hardly uses or waits for a CPU, and its GIL is not saturated.

    False if its use of the CPU is unknown.
    """
    is_known_idle = of.busy_each is not None and of.busy_each < IDLE
    return is_known_idle and not is_gil_full(of.signs.gil_utilisation)


def _gil_saturated(of: Figures) -> Cause | None:
    """The GIL is nearly always held, and each request holds it for longer than GIL_HELD_S.

    If the sampler had no free core, use the CPU time instead: a process that uses just one of
    several cores. Short requests also saturate the GIL, but only at a high rate.
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
    """Whether the GIL may be the limit, but is unknown, because the process waited for a CPU."""
    if of.gil_enabled is False or of.signs.gil_utilisation is not None or of.busy_each is None:
        return False
    low = ONE_CORE[0]
    return (of.gil_s or 0.0) >= GIL_HELD_S and of.busy_each >= low > (of.cores_each or 0.0)


def _gil(of: Figures, value: float | None, threshold: float) -> Cause:
    return Cause(Kind.GIL_SATURATED, value, threshold, gil_s=of.gil_s)


def _thread_limit(of: Figures) -> Cause | None:
    """All of anyio's threads are in use, and requests take as long in them as alone.

    If they take longer, more threads would wait for the same resource: the GIL, the CPU, a pool.
    """
    full, total = of.signs.limiter_full, of.signs.limiter_total
    if full is None or total is None or full < FULL or not of.rate or not of.alone_s:
        return None
    in_thread_s = total * of.processes / of.rate
    if in_thread_s >= STRETCHED * of.alone_s or _gil_saturated(of) is not None:
        return None
    return Cause(Kind.THREAD_LIMIT, full, FULL, limit=total)


def _waits_elsewhere(of: Figures) -> Cause | None:
    """Requests take longer than a single one, while the process and its GIL are idle.

    The number of requests that are served at once is the rate times the time of a single request
    (Little's law).
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


@dataclass(frozen=True)
class Signs:
    """The signs of one record; None is unknown.

    `loop_blocked_s` is the time for which the event loop was blocked: the 99th percentile of its
    lag or, if that is larger, `loop_blocked_by_s`. `loop_blocked_by` is the route that ran longest
    on it without a pause, and `loop_blocked_by_s` is this time, as the mean of its requests.
    `limiter_full` is the share of time in which all of anyio's `limiter_total` threads were in use.
    `gil_utilisation` is the share of time in which the GIL was held, and `gil_enabled_by` the
    module that enabled it in a free-threaded build. `cpu_utilisation` is the share of the machine's
    CPU that the server used. `wait_share` is the share of the time inside the application in which
    the server's processes neither use nor wait for a CPU. `concurrency` is the mean number of
    requests inside (Little's law: rate x time inside), and `stretch` the time inside under load
    over the response time of a single request. Memory is that of the largest process.
    """

    loop_blocked_s: float | None = None
    loop_blocked_by: str | None = None
    loop_blocked_by_s: float | None = None
    limiter_full: float | None = None
    limiter_total: int | None = None
    gil_utilisation: float | None = None
    gil_enabled_by: str | None = None
    cpu_utilisation: float | None = None
    wait_share: float | None = None
    concurrency: float | None = None
    stretch: float | None = None
    worker_pss_mib: float | None = None
    worker_private_mib: float | None = None


def signs(record: Record) -> Signs | None:
    """Return the signs of a record; None if its server has a task instead of an application."""
    found = record.application
    if found.kind is None:
        return None
    is_loop = found.kind == "asgi"
    known = [route for route in found.routes if is_loop and route.run_s is not None]
    blocking = max(known, key=lambda route: route.run_s or 0.0, default=None)
    limiter, cores = found.limiter, record.environment.get("cores")
    used = record.resources.cores_used
    importer = record.server.interpreter.get("gil_enabled_by")
    return Signs(
        loop_blocked_s=_loop_blocked_s(record, blocking) if is_loop else None,
        loop_blocked_by=blocking.route if blocking else None,
        loop_blocked_by_s=blocking.run_s if blocking else None,
        limiter_full=limiter.full,
        limiter_total=limiter.total,
        gil_utilisation=record.gil.utilisation.value,
        gil_enabled_by=str(importer) if importer else None,
        cpu_utilisation=round(used / cores, 4)
        if used is not None and isinstance(cores, int)
        else None,
        wait_share=_wait_share(record),
        concurrency=_concurrency(record),
        stretch=_stretch(record),
        worker_pss_mib=found.worker_pss_mib,
        worker_private_mib=found.worker_private_mib,
    )


def signs_of_case(records: Sequence[Record]) -> Signs | None:
    """Return the signs of a case: medians of the numbers of its records, modes of the names."""
    known = [found for record in records if (found := signs(record)) is not None]
    if not known:
        return None
    names = [each.name for each in fields(Signs)]
    return Signs(**{name: median([getattr(found, name) for found in known]) for name in names})


def median(values: Sequence[Any]) -> Any:
    """Return the low median of the known numbers, or the most frequent name; None if unknown."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return statistics.mode(known) if isinstance(known[0], str) else statistics.median_low(known)


def _loop_blocked_s(record: Record, blocking: Route | None) -> float | None:
    lag_ms = record.tasks.loop_lag_p99_ms
    run_s = None if blocking is None else blocking.run_s
    known = [None if lag_ms is None else lag_ms / 1000, run_s]
    return max((round(value, 6) for value in known if value is not None), default=None)


def _wait_share(record: Record) -> float | None:
    """Return 1 - CPU time / time inside, with the CPU time of all the server's processes.

    The time in which their threads waited for a CPU counts as CPU time.
    """
    inside_s, used = record.application.inside_s, record.resources
    if not inside_s or used.cpu_ms_per_request is None or not record.result.completed:
        return None
    queued_s = (used.queued_s or 0.0) / record.result.completed
    return round(max(0.0, 1 - (used.cpu_ms_per_request / 1000 + queued_s) / inside_s), 4)


def _stretch(record: Record) -> float | None:
    inside_s, alone_s = record.application.inside_s, record.baseline.alone_s
    return None if inside_s is None or not alone_s else round(inside_s / alone_s, 4)


def _concurrency(record: Record) -> float | None:
    rate, inside_s = record.result.rate, record.application.inside_s
    return None if rate is None or inside_s is None else round(rate * inside_s, 4)
