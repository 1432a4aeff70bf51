"""The figures of a load, computed from the times of all its requests: rate, quantiles, histogram.

Each load process records `Samples`; `summary` counts those of all processes within a window.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from operator import sub
from time import monotonic
from typing import Any

from offload.errors import Flag
from offload.loads._load import Figures, Load, LoadResult, Response, quantum_of_count


@dataclass(frozen=True)
class Clock:
    """A clock that is `ahead_s` of the reference at the reference time `at`.

    From then on it gains `drift` seconds per second. The default is the reference clock itself:
    its conversions return the same number.
    """

    ahead_s: float = 0.0
    drift: float = 0.0
    at: float = 0.0

    def own(self, time: float) -> float:
        """Convert a time of the reference clock to one of this clock."""
        return time + (self.ahead_s + self.drift * (time - self.at))

    def reference(self, time: float) -> float:
        """Convert a time of this clock to one of the reference clock."""
        return self.at + (time - self.ahead_s - self.at) / (1.0 + self.drift)

    @property
    def is_reference(self) -> bool:
        """Whether this is the reference clock itself."""
        return not self.ahead_s and not self.drift


REFERENCE = Clock()


def _doubles() -> array[float]:
    return array("d")


@dataclass
class Samples:
    """The requests of one load process; times in seconds of `clock`, its CLOCK_MONOTONIC.

    `started`, `sent` and `ended` describe completed requests, in the order of their ends; a
    request is sent when it is connected. `failed` has the kind, start and end of failed requests,
    `unfinished` the starts of requests in flight at `over`, the end of the load. In an open loop
    `due` has the scheduled starts of requests, `late` the delays of the tool, and `waited` the
    times for which they then waited for a connection. `requests` is the number of all requests,
    which is counted when they start; None if it is unknown. `busy` is the share of one core that
    the process used within the window. `problem` is the reason of an early end, and `is_stalled`:
    it is that hardly any request succeeded any more.
    """

    started: array[float] = field(default_factory=_doubles)
    sent: array[float] = field(default_factory=_doubles)
    ended: array[float] = field(default_factory=_doubles)
    failed: list[tuple[str, float, float]] = field(default_factory=list)
    unfinished: list[float] = field(default_factory=list)
    due: array[float] = field(default_factory=_doubles)
    late: array[float] = field(default_factory=_doubles)
    waited: array[float] = field(default_factory=_doubles)
    requests: int | None = None
    over: float = field(default_factory=lambda: monotonic())  # noqa: PLW0108 - not captured
    busy: float | None = None
    problem: str | None = None
    is_stalled: bool = False
    clock: Clock = REFERENCE

    @property
    def unaccounted(self) -> int:
        """The number of requests whose end is in no list; any other value than 0 is a defect."""
        if self.requests is None:
            return 0
        return self.requests - len(self.ended) - len(self.failed) - len(self.unfinished)


# The result
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
        is_stalled=any(part.is_stalled for part in parts),
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
            "rate_quantum": quantum_of_count(load.users, completed),
        }
    started, sent, ended = array("d"), array("d"), array("d")
    for part in parts:
        started.extend(_in_reference(part, part.started))
        sent.extend(_in_reference(part, part.sent))
        ended.extend(_in_reference(part, part.ended))
    edges = (window.started, window.ended)
    open_since = (b for part in parts for b in _in_reference(part, part.unfinished))
    if load.window.waits_s is not None and any(b <= window.ended for b in open_since):
        rate, quantum = between_completions(ended, *edges)
        if quantum <= EVEN or not completed:
            return {"rate": rate, "rate_how": "between completions", "rate_quantum": quantum}
        # Requests that end together: the time between them is not that of the others.
        rate = completed / window.length if window.length else None
        return {"rate": rate, "rate_how": "count / elapsed", "rate_quantum": quantum}
    return {
        "rate": residence_spread(sent, ended, *edges),
        "rate_how": "residence-spread",
        "in_flight": in_flight(started, ended, *edges),
        "rate_quantum": quantum_of_residence(sent, ended, *edges),
    }


def _in_reference(part: Samples, times: Iterable[float]) -> Iterable[float]:
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


# The rate of a window, from the start and end times of the requests that overlap it
EVEN = 0.25  # quantum of completions, above which they are no even flow; a guess
STEPS = 8  # earlier window ends within one response time


def residence_spread(
    started: Sequence[float], ended: Sequence[float], start: float, end: float
) -> float | None:
    """Return completed requests per second from `start` to `end`; None for an empty window.

    A request counts as the share of its own duration that is inside the window. The rate is the
    sum of these shares divided by the window's length. `started` and `ended` must include the
    requests that are in flight at either end of the window. A request starts when it is sent,
    because one that waits to connect is not in the server. Counting whole requests instead would
    change the rate by up to one batch of users at each end of the window.
    """
    if end <= start:
        return None
    return _inside(started, ended, start, end) / (end - start)


def in_flight(
    started: Sequence[float], ended: Sequence[float], start: float, end: float
) -> float | None:
    """Return the mean number of requests in flight from `start` to `end`; None if empty.

    By Little's law it equals X R: the rate in the window times the mean response time of the
    requests that the rate counts. The requests that ended in the window would be inaccurate: they
    describe a time that is earlier by one response time.
    """
    if end <= start:
        return None
    pairs = zip(started, ended, strict=True)
    return fsum(max(0.0, min(e, end) - max(b, start)) for b, e in pairs) / (end - start)


def quantum_of_residence(
    started: Sequence[float], ended: Sequence[float], start: float, end: float
) -> float:
    """Return the remaining quantization error of `residence_spread` as a share of the rate.

    The rate is calculated for STEPS windows that end up to one mean response time earlier. The
    error is half the difference of the largest and the smallest of these rates: 0 for a steady
    flow, up to one batch of users for a server that responds in bursts.
    """
    whole = _inside(started, ended, start, end)
    if not whole:
        return 1.0
    mean = (fsum(ended) - fsum(started)) / len(ended)
    back = min(mean, (end - start) / 2)
    late = [(b, e) for b, e in zip(started, ended, strict=True) if e > end - back and b < end]
    starts, ends = [b for b, _ in late], [e for _, e in late]
    rates = []
    for step in range(STEPS):
        earlier = end - back * step / STEPS
        rates.append((whole - _inside(starts, ends, earlier, end)) / (earlier - start))
    rates.append(whole / (end - start))
    return (max(rates) - min(rates)) / 2 / rates[-1]


def between_completions(
    ended: Sequence[float], start: float, end: float
) -> tuple[float | None, float]:
    """Return (n - 1) / time from the first to the last of n completions, and its quantum.

    It is the rate of a server with even completions, and does not depend on users that cannot
    connect. The quantum is the widest gap, also to the ends of the window, minus the mean gap, as a
    share of the window. The rate is None below two completions.
    """
    inside = sorted(e for e in ended if start <= e <= end)
    if len(inside) < 2 or inside[-1] == inside[0]:
        return None, 1.0
    lasted, length = inside[-1] - inside[0], end - start
    widest = max(b - a for a, b in pairwise([start, *inside, end]))
    return (len(inside) - 1) / lasted, max(0.0, widest / length - 1 / len(inside))


def _inside(started: Sequence[float], ended: Sequence[float], start: float, end: float) -> float:
    """Sum the parts of all requests between `start` and `end`."""
    total = 0.0
    for b, e in zip(started, ended, strict=True):
        if b >= start and e <= end:
            if e > start or b > start or e < end:
                total += 1.0
        elif e > start and b < end:
            total += (min(e, end) - max(b, start)) / (e - b)
    return total


# Histograms: counts in logarithmic buckets, which are merged by addition
ERROR = 0.01  # maximum relative error of a quantile
GROWTH = (1 + ERROR) / (1 - ERROR)
SMALLEST = 1e-9  # s: the clock cannot distinguish a shorter time from 0
Histogram = Mapping[str, int]  # bucket number, a string as in JSON, to count


def histogram(ordered: Sequence[float]) -> dict[str, int]:
    """Count sorted times in s: bucket i holds the times in (GROWTH^(i-1), GROWTH^i].

    The buckets are those of DDSketch (Masson, Rim and Lee, VLDB 2019). There are far fewer buckets
    than times, so it is fast to find the end of each bucket by a binary search.
    """
    counts: dict[str, int] = {}
    done = 0
    while done < len(ordered):
        bucket = math.ceil(math.log(max(ordered[done], SMALLEST)) / math.log(GROWTH))
        until = max(done + 1, bisect_right(ordered, GROWTH**bucket, lo=done))
        counts[str(bucket)] = counts.get(str(bucket), 0) + until - done
        done = until
    return counts


def merge_histograms(histograms: Iterable[Histogram]) -> dict[str, int]:
    """Add histograms: the result equals one histogram of all the times."""
    total: Counter[str] = Counter()
    for one in histograms:
        total.update(one)
    return {bucket: total[bucket] for bucket in sorted(total, key=int)}


def count_within(counts: Histogram, limit_s: float) -> int:
    """Return the number of times up to a limit, with a relative error of the limit of ERROR."""
    return sum(count for bucket, count in counts.items() if GROWTH ** (int(bucket) - 1) < limit_s)


def histogram_quantile(
    counts: Histogram, share: float, at_least_s: float | None = None
) -> float | None:
    """Return the `share` quantile in s, with a relative error of at most ERROR; None if empty.

    It is the value that differs by ERROR from both ends of the nearest rank's bucket. `at_least_s`
    is the timeout of requests that timed out. If the nearest rank is in the bucket of the timeout
    or a later one, the quantile is at least the timeout: this marks it as a lower bound.
    """
    rank = max(1, math.ceil(share * sum(counts.values())))
    for bucket in sorted(counts, key=int):
        rank -= counts[bucket]
        if rank <= 0:
            found: float = 2 * GROWTH ** int(bucket) / (GROWTH + 1)
            is_bound = at_least_s is not None and GROWTH ** int(bucket) >= at_least_s
            return max(found, at_least_s or 0.0) if is_bound else found
    return None
