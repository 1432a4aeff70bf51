"""The summary of a load: what was measured, from the times of all its requests."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from typing import Any

from offload.flags import Flag
from offload.loads import Load, Measured
from offload.loads.engine import rates
from offload.loads.engine.histogram import histogram
from offload.loads.engine.phases import has_window
from offload.loads.engine.samples import Samples
from offload.loads.engine.shared_state import BEGAN, ENDED, START, Board

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
KINDS = ("refused", "reset", "timeout", "tls", "4xx", "5xx", "other", "unfinished")


@dataclass(frozen=True)
class Window:
    """From when to when a load is counted, in s of CLOCK_MONOTONIC; `is_own`: with load around."""

    began: float
    ended: float
    is_own: bool

    @property
    def length(self) -> float:
        """Its length in s."""
        return self.ended - self.began


def window(load: Load, board: Board, parts: Sequence[Samples]) -> Window:
    """Give the window that was agreed on, or all of the load when it has none or ended early."""
    began, ended = board.time(BEGAN), board.time(ENDED)
    if has_window(load) and ended:
        return Window(began, ended, is_own=True)
    over = ended or max(part.over for part in parts)
    return Window(began or board.time(START), over, is_own=False)


def summary(load: Load, window: Window, parts: Sequence[Samples]) -> Measured:
    """Sum up what the processes of a load saw in its window."""
    times, failed = _counted(load, window, parts)
    ordered = sorted(times)
    finished = len(times) + failed.total() - failed["unfinished"]
    return Measured(
        elapsed_s=round(window.length, 6),
        completed=len(times),
        failed={kind: failed[kind] for kind in KINDS},
        availability=len(times) / finished if finished else None,
        response_mean_s=round(math.fsum(times) / len(times), 6) if ordered else None,
        response_how="per request" if ordered else None,
        histogram=histogram(ordered) if ordered else None,
        window_s=round(window.length, 6),
        window_began=window.began,
        window_ended=window.ended,
        driver_busy=max((round(p.busy, 4) for p in parts if p.busy is not None), default=None),
        problem=next((part.problem for part in parts if part.problem), None),
        notes=_notes(load, window, len(times)),
        **_rates(load, window, parts, len(times)),
        **_quantiles(ordered),
        **(_offered(window, parts) if load.rate else {}),
    )


def _counted(
    load: Load, window: Window, parts: Sequence[Samples]
) -> tuple[array[float], Counter[str]]:
    """Give the times of the requests that count, and the failures by kind.

    Of an open loop those count that were to begin within the window. Of a closed one those that
    ended within it; what was in flight at its end counts only when it fails.
    """
    first, last = window.began, window.ended
    times, failed = array("d"), Counter[str]()
    for part in parts:
        if load.rate:
            pairs = zip(part.began, part.ended, strict=True)
            times.extend(e - b for b, e in pairs if first <= b <= last)
            failed.update(kind for kind, b, _ in part.failed if first <= b <= last)
            failed["unfinished"] += sum(first <= b <= last for b in part.unfinished)
        else:
            own = slice(bisect_left(part.ended, first), bisect_right(part.ended, last))
            times.extend(map(sub, part.ended[own], part.began[own]))
            failed.update(kind for kind, b, e in part.failed if first <= e and b <= last)
            failed["unfinished"] += sum(b <= last for b in part.unfinished)
    return times, failed


def _offered(window: Window, parts: Sequence[Samples]) -> dict[str, Any]:
    late = sorted(
        late
        for part in parts
        for at, late in zip(part.asked, part.late, strict=True)
        if window.began <= at <= window.ended
    )
    return {
        "offered": len(late),
        "late_p99_s": round(quantile(late, 0.99), 6) if late else None,
        "late_max_s": round(late[-1], 6) if late else None,
    }


def quantile(ordered: Sequence[float], share: float) -> float:
    """Give the smallest sample that `share` of all do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _quantiles(ordered: Sequence[float]) -> dict[str, Any]:
    return {
        f"response_{name}_s": round(quantile(ordered, share), 6) if ordered else None
        for name, share in QUANTILES.items()
    }


def _rates(load: Load, window: Window, parts: Sequence[Samples], completed: int) -> dict[str, Any]:
    if not window.is_own:
        return {
            "rate": completed / window.length if window.length else None,
            "rate_how": "count / elapsed",
            "rate_quantum": rates.quantum_of_count(load.users, completed),
        }
    began, sent, ended = array("d"), array("d"), array("d")
    for part in parts:
        began.extend(part.began)
        sent.extend(part.sent)
        ended.extend(part.ended)
    edges = (window.began, window.ended)
    if not load.waits:
        rate, quantum = rates.between_completions(ended, *edges)
        return {"rate": rate, "rate_how": "between completions", "rate_quantum": quantum}
    return {
        "rate": rates.residence_spread(sent, ended, *edges),
        "rate_how": "residence-spread",
        "in_flight": rates.in_flight(began, ended, *edges),
        "rate_quantum": rates.quantum(sent, ended, *edges),
    }


def _notes(load: Load, window: Window, completed: int) -> tuple[Flag, ...]:
    """Say when the window was ended by its cap before it had what it was to have."""
    wanted = max(load.completions, math.ceil(load.cycles * load.users))
    if not window.is_own or completed >= wanted:
        return ()
    return (
        Flag("window", f"ended after {window.length:.0f} s with {completed} of {wanted} answers"),
    )
