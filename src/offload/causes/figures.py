"""The figures of an application under load that the rules for causes need."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from offload.causes import ceiling
from offload.causes.ceiling import Ceiling
from offload.engine.application import Collector, HotLine, Malloc, Route, Steps
from offload.engine.hot_lines import AWAITS, OWN_THREAD, OWN_WORK, RETRIES, WAITS
from offload.engine.record import Record

Part = TypeVar("Part", Collector, Malloc)


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
    is_loop = found.has_loop
    known = [route for route in found.routes if is_loop and route.run_s is not None]
    blocking = max(known, key=_longest_s, default=None)
    limiter, cores = found.threads.limiter, record.environment.get("cores")
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
        worker_pss_mib=found.memory.pss_mib,
        worker_private_mib=found.memory.private_mib,
    )


def _longest_s(route: Route) -> float:
    """Return how long a request of a route occupies the event loop, in runs without a pause."""
    steps = route.steps
    return max(route.run_s or 0.0, steps.blocked_s or 0.0, steps.after_s or 0.0)


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


@dataclass(frozen=True)
class Figures:
    """The figures of one configuration under load that the rules need; None is unknown.

    `rate` is in requests/s, `alone_s` the response time of a single request. `cores_used` is the
    CPU time of all processes per second. `busy_cores` also includes their wait for a CPU, so that a
    process is not regarded as idle because other programs use the machine. `threads_used` is the
    maximum number of anyio's threads in use, and `loop_lag_s` the median lag of the event loop.
    `cores` is the number of cores of the machine, and `hottest` the line of the application in
    which its threads or its loop spend most of their time; `background` are those of threads that
    it started itself. `records` are those without a problem,
    for a rule that needs more of them; `collector` and `malloc` have their medians. `failed` are
    those of loads with a problem. `page_faults` are those per second of CPU time.
    `ceiling` is the rate that CPU, users and workers allow.
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
    has_loop: bool
    cores: int | None
    hottest: HotLine | None = None
    background: Sequence[HotLine] = ()
    ceiling: Ceiling | None = None
    records: Sequence[Record] = ()
    collector: Collector = field(default_factory=Collector)
    malloc: Malloc = field(default_factory=Malloc)
    page_faults: float | None = None
    failed: Sequence[Record] = ()

    @property
    def blocking_steps(self) -> Steps:
        """What requests of the route do that blocks the event loop longest, as medians."""
        name = self.signs.loop_blocked_by
        own = [route for r in self.records for route in r.application.routes if route.route == name]
        names = [each.name for each in fields(Steps)]
        return Steps(**{key: median([getattr(route.steps, key) for route in own]) for key in names})

    @property
    def waiting_line(self) -> HotLine | None:
        """The hottest line, if it waits or awaits."""
        waits = self.hottest is not None and self.hottest.doing in (WAITS, AWAITS, RETRIES)
        return self.hottest if waits else None

    @property
    def cores_each(self) -> float | None:
        """The cores that each process uses."""
        return None if self.cores_used is None else self.cores_used / self.processes

    @property
    def busy_each(self) -> float | None:
        """The cores that each process uses or waits for."""
        return None if self.busy_cores is None else self.busy_cores / self.processes

    @property
    def collected_share(self) -> float | None:
        """The garbage collector's share of the CPU time of its process, at most of one core."""
        share, cores = self.collector.share, self.cores_each
        return None if share is None or not cores else min(1.0, share / min(1.0, cores))

    @property
    def gil_s(self) -> float | None:
        """The time for which a request holds the GIL, or if that is unknown, uses the CPU."""
        used = self.signs.gil_utilisation
        share = self.cores_each if used is None else used
        if share is None or not self.rate:
            return None
        return share / (self.rate / self.processes)


def figures(records: Sequence[Record]) -> Figures | None:
    """Return the figures of a case, as medians of its records; None without an application."""
    every = [r for r in records if r.application.kind is not None]
    known = [r for r in every if r.problem is None]
    if not every:
        return None
    last = every[-1]
    enabled, cores = last.server.interpreter.get("gil_enabled"), last.environment.get("cores")
    lines = next((r.who.lines for r in reversed(known) if r.who and r.who.lines), ())
    return Figures(
        signs=signs_of_case(known) or Signs(),
        processes=max(r.application.processes or 1 for r in every),
        rate=median([r.result.rate for r in known]),
        alone_s=median([r.baseline.alone_s for r in known]),
        cores_used=median([r.resources.cores_used for r in known]),
        busy_cores=median([_busy_cores(r) for r in known]),
        threads_used=median([r.application.threads.limiter.used for r in known]),
        loop_lag_s=median([_loop_lag_s(r) for r in known]),
        gil_enabled=None if enabled is None else bool(enabled),
        has_loop=last.application.has_loop,
        cores=cores if isinstance(cores, int) else None,
        hottest=next((line for line in lines if line.context != OWN_THREAD), None),
        background=[line for line in lines if line.context in OWN_WORK],
        ceiling=ceiling.find(known),
        records=known,
        collector=_medians(Collector, [r.application.memory.collector for r in known]),
        malloc=_medians(Malloc, [r.application.memory.malloc for r in known]),
        page_faults=median([_page_faults(r) for r in known]),
        failed=[r for r in every if r.problem is not None],
    )


def _medians(kind: type[Part], parts: Sequence[Part]) -> Part:
    """Return the low medians of the fields of a part of a record."""
    names = [each.name for each in fields(kind)]
    return kind(**{name: median([getattr(part, name) for part in parts]) for name in names})


def _page_faults(record: Record) -> float | None:
    faults, cpu_s = record.resources.page_faults, record.resources.cpu_s
    return None if faults is None or not cpu_s else faults / cpu_s


def _busy_cores(record: Record) -> float | None:
    used, elapsed_s = record.resources, record.result.elapsed_s
    if used.cores_used is None or not elapsed_s:
        return None
    return used.cores_used + (used.queued_s or 0.0) / elapsed_s


def _loop_lag_s(record: Record) -> float | None:
    lag_ms = record.tasks.loop_lag_p50_ms
    return None if lag_ms is None else lag_ms / 1000
