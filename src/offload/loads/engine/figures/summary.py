"""The result of a load, computed from the times of all its requests."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Any

from offload.flags import Flag
from offload.loads import Figures, Load, LoadResult, Response
from offload.loads.engine.figures import rates
from offload.loads.engine.figures.histogram import histogram
from offload.loads.engine.figures.samples import Samples
from offload.loads.engine.shared_state import LOAD_START, WINDOW_END, WINDOW_START, SharedState

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
KINDS = ("refused", "reset", "timeout", "tls", "4xx", "5xx", "body", "other", "unfinished")


@dataclass(frozen=True)
class CountedTime:
    """The counted part of a load, in s of the reference clock: CLOCK_MONOTONIC of this machine.

    `is_own`: it is a separate window, not the whole load.
    """

    started: float
    ended: float
    is_own: bool

    @property
    def length(self) -> float:
        """The length in s."""
        return self.ended - self.started


def counted_time(load: Load, state: SharedState, parts: Sequence[Samples]) -> CountedTime:
    """Return the window of a load, or the whole load if it has no window or ended early."""
    started, ended = state.time(WINDOW_START), state.time(WINDOW_END)
    if load.has_window and ended:
        return CountedTime(started, ended, is_own=True)
    over = ended or max(part.over for part in parts)
    return CountedTime(started or state.time(LOAD_START), over, is_own=False)


def summary(load: Load, window: CountedTime, parts: Sequence[Samples]) -> LoadResult:
    """Summarize the samples of a load's processes within its window."""
    times, failed = _count(load, window, parts)
    late, waited = (_delays(window, parts, kind) for kind in ("late", "waited"))
    finished = len(times) + failed.total() - failed["unfinished"]
    figures = Figures(
        elapsed_s=round(window.length, 6),
        offered=len(late) if load.arrivals else len(times) + failed.total(),
        completed=len(times),
        failed={kind: failed[kind] for kind in KINDS},
        availability=len(times) / finished if finished else None,
        window_s=round(window.length, 6),
        window_began=window.started,
        window_ended=window.ended,
        response=_response(times, [load.timeout] * failed["timeout"], late, waited),
        **_rates(load, window, parts, len(times)),
    )
    problem = next((part.problem for part in parts if part.problem), None)
    if problem is None and (unaccounted := sum(part.unaccounted for part in parts)):
        problem = f"builtin has not accounted for {unaccounted} requests: report this defect"
    busy = [part.busy for part in parts if part.busy is not None]
    return LoadResult(
        figures,
        driver_busy=round(max(busy), 4) if busy else None,
        driver_cpu_s=round(sum(busy) * window.length, 6) if len(busy) == len(parts) else None,
        problem=problem,
        notes=(*_window_flags(load, window, len(times)), *_connection_flags(load, waited)),
    )


def _count(
    load: Load, window: CountedTime, parts: Sequence[Samples]
) -> tuple[array[float], Counter[str]]:
    """Return the response times of the completed requests in a window, and the failures by kind.

    In an open loop these are the requests that were scheduled within the window. In a closed loop
    these are the requests that ended within it, and those that were in flight at its end and fail.
    The window is converted to the clock of each part, and no time of a request is converted: so
    response times are exact, and their quantiles are those of all samples pooled.
    """
    times, failed = array("d"), Counter[str]()
    for part in parts:
        first, last = part.clock.own(window.started), part.clock.own(window.ended)
        if load.arrivals:
            pairs = zip(part.started, part.ended, strict=True)
            times.extend(e - b for b, e in pairs if first <= b <= last)
            failed.update(kind for kind, b, _ in part.failed if first <= b <= last)
            failed["unfinished"] += sum(first <= b <= last for b in part.unfinished)
        else:
            own = slice(bisect_left(part.ended, first), bisect_right(part.ended, last))
            times.extend(map(sub, part.ended[own], part.started[own]))
            failed.update(kind for kind, b, e in part.failed if first <= e and b <= last)
            failed["unfinished"] += sum(b <= last for b in part.unfinished)
    return times, failed


def _delays(window: CountedTime, parts: Sequence[Samples], kind: str) -> list[float]:
    """Return one kind of delay of an open loop's requests, ascending; a closed loop has none."""
    return sorted(
        delay
        for part in parts
        for at, delay in zip(part.due, getattr(part, kind), strict=True)
        if part.clock.own(window.started) <= at <= part.clock.own(window.ended)
    )


def _response(
    times: Sequence[float],
    timeouts: Sequence[float],
    late: Sequence[float],
    waited: Sequence[float],
) -> Response:
    """Return the mean of `times`, and the quantiles of `times` and `timeouts` together."""
    found: dict[str, Any] = {}
    for name, delays in (("late", late), ("waited", waited)):
        if delays:
            found[f"{name}_p99_s"] = round(quantile(delays, 0.99), 6)
            found[f"{name}_max_s"] = round(delays[-1], 6)
    if times:
        found |= {"mean_s": round(math.fsum(times) / len(times), 6), "how": "per request"}
    if timeouts:
        found["at_least_s"] = round(min(timeouts), 6)
    if ordered := sorted([*times, *timeouts]):
        found["histogram"] = histogram(ordered)
        found |= {f"{name}_s": round(quantile(ordered, q), 6) for name, q in QUANTILES.items()}
    return Response(**found)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest sample that `share` of all do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _rates(
    load: Load, window: CountedTime, parts: Sequence[Samples], completed: int
) -> dict[str, Any]:
    if not window.is_own:
        return {
            "rate": completed / window.length if window.length else None,
            "rate_how": "count / elapsed",
            "rate_quantum": rates.quantum_of_count(load.users, completed),
        }
    started, sent, ended = array("d"), array("d"), array("d")
    for part in parts:
        started.extend(_in_reference(part, part.started))
        sent.extend(_in_reference(part, part.sent))
        ended.extend(_in_reference(part, part.ended))
    edges = (window.started, window.ended)
    if not load.window.waits:
        rate, quantum = rates.between_completions(ended, *edges)
        return {"rate": rate, "rate_how": "between completions", "rate_quantum": quantum}
    return {
        "rate": rates.residence_spread(sent, ended, *edges),
        "rate_how": "residence-spread",
        "in_flight": rates.in_flight(started, ended, *edges),
        "rate_quantum": rates.quantum(sent, ended, *edges),
    }


def _in_reference(part: Samples, times: array[float]) -> Iterable[float]:
    """Return times of a load process as times of the reference clock."""
    return times if part.clock.is_reference else map(part.clock.reference, times)


def _window_flags(load: Load, window: CountedTime, completed: int) -> tuple[Flag, ...]:
    """Return a flag if the window ended at its maximum length with too few responses."""
    wanted = load.window.responses(load.users)
    if not window.is_own or completed >= wanted:
        return ()
    return (
        Flag("window", f"ended after {window.length:.0f} s with {completed} of {wanted} responses"),
    )


def _connection_flags(load: Load, waited: Sequence[float]) -> tuple[Flag, ...]:
    """Return a flag if more than 1 % of an open loop's requests waited for a connection."""
    if not waited or not quantile(waited, 0.99):
        return ()
    count = len(waited) - bisect_right(waited, 0.0)
    queued = f"{count} of {len(waited)} requests waited for one of {load.users} connections"
    remedy = "use more users, or a lower rate"
    return (Flag("connections", f"{queued}, the longest {waited[-1]:.2f} s", remedy),)
