"""The causes that limit an application, decided from measured figures; each rule is here only.

docs/advice.rst has the source of each threshold. Unknown figures decide nothing: a cause is named
only if all the figures that its rule needs are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from offload.bench.analysis import application_signs
from offload.bench.analysis.application_signs import (
    BLOCKED_S,
    FULL,
    SATURATED,
    STRETCHED,
    WAITS,
    Signs,
)
from offload.bench.records.record import Record

BLOCKED_SHARE = 0.5  # of the time: the loop has nothing left to do it in
GIL_HELD_S = 0.005  # s per request: CPython's switch interval, sys.getswitchinterval()
ONE_CORE = (0.85, 1.25)  # cores that a process uses whose threads take turns
IDLE = 0.5  # cores per process: below, nothing here computes


class Kind(StrEnum):
    """What limits an application. NOTHING: only the CPU or the number of users does."""

    GIL_IMPORT = "gil_import"
    LOOP_BLOCKED = "loop_blocked"
    THREAD_LIMIT = "thread_limit"
    GIL_SATURATED = "gil_saturated"
    WAITS_ELSEWHERE = "waits_elsewhere"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Cause:
    """A cause with the figure that shows it, and the threshold that the figure reached.

    The unit of `value` and `threshold` depends on the kind: seconds without a pause
    (LOOP_BLOCKED), share of the time (THREAD_LIMIT, GIL_SATURATED), times as long as a single
    request (WAITS_ELSEWHERE); None for the others. `route` is the route that blocks, `module` the
    one that switched the GIL on, `limit` the number of threads, or about how many requests the
    thing waited for handles at once. `gil_s` is the time that a request holds the GIL.
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
    machine that others use makes no process idle. `threads_used` are the most of anyio's threads.
    """

    signs: Signs
    processes: int
    rate: float | None
    alone_s: float | None
    cores_used: float | None
    busy_cores: float | None
    threads_used: int | None
    gil_enabled: bool | None
    is_asgi: bool
    cores: int

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


def figures(records: Sequence[Record], processes: int, cores: int) -> Figures | None:
    """Return the figures of a case from its windows; None without any that report."""
    known = [r for r in records if r.problem is None and r.application.kind is not None]
    signs = application_signs.of_case(known)
    if signs is None:
        return None
    last = known[-1]
    enabled = last.server.interpreter.get("gil_enabled")
    return Figures(
        signs,
        processes,
        last.result.rate,
        last.baseline.alone_s,
        last.resources.cores_used,
        _busy_cores(last),
        last.application.limiter.used,
        None if enabled is None else bool(enabled),
        last.application.kind == "asgi",
        cores,
    )


def _busy_cores(record: Record) -> float | None:
    used, elapsed_s = record.resources, record.result.elapsed_s
    if used.cores_used is None or not elapsed_s:
        return None
    return used.cores_used + (used.queued_s or 0.0) / elapsed_s


def find(of: Figures) -> list[Cause]:
    """Return the causes, the first one to mend first; [Cause(NOTHING)] if there is none.

    Empty if none is found, and figures that would show one are unknown.
    """
    rules = (_gil_import, _loop_blocked, _gil_saturated, _thread_limit, _waits_elsewhere)
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
    """A route runs on the event loop for long, and so for most of the time.

    Requests in threads that hold the GIL delay the loop, too: then the loop is not to blame.
    """
    run_s, rate = of.signs.loop_blocked_by_s, of.rate
    if not of.is_asgi or run_s is None or not rate or run_s < BLOCKED_S:
        return None
    if rate / of.processes * run_s < BLOCKED_SHARE or _is_in_threads(of):
        return None
    return Cause(Kind.LOOP_BLOCKED, run_s, BLOCKED_S, route=of.signs.loop_blocked_by)


def _is_in_threads(of: Figures) -> bool:
    return (of.threads_used or 0) > 1


def _gil_saturated(of: Figures) -> Cause | None:
    """The GIL is always held, by requests that hold it longer than a thread waits for it.

    If the sampler had no free core, a process of several threads that uses one of several cores
    shows the same. Short requests saturate the GIL, too, at a rate that is no problem.
    """
    if of.gil_enabled is False or of.gil_s is None or of.gil_s < GIL_HELD_S:
        return None
    used = of.signs.gil_utilisation
    if used is not None:
        return _gil(of, used, SATURATED) if used >= SATURATED else None
    low, high = ONE_CORE
    share = of.cores_each
    is_one_core = share is not None and low <= share <= high and of.cores > of.processes
    return _gil(of, share, low) if is_one_core else None


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
    signs = of.signs
    known = signs.wait_share, signs.stretch, of.busy_each, of.rate, of.alone_s
    if None in known or _loop_blocked(of) is not None or _thread_limit(of) is not None:
        return None
    wait_share, stretch, busy_each, rate, alone_s = (float(str(value)) for value in known)
    is_idle = busy_each < IDLE and (signs.gil_utilisation or 0.0) < SATURATED
    if not is_idle or wait_share < WAITS or stretch < STRETCHED:
        return None
    at_once = max(1, round(rate * alone_s))
    return Cause(Kind.WAITS_ELSEWHERE, stretch, STRETCHED, limit=at_once)
