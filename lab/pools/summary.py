"""The cells of the pool tables: the results of each pool, size and number of concurrent tasks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lab.pools.run import Line
from offload.engine import intervals
from offload.engine.intervals import Interval

REFERENCE = "process"  # the standard process pool, started by forkserver


@dataclass(frozen=True)
class Cell:
    """The results of one pool with one size and number of concurrent tasks; None is unknown.

    `rate` is in tasks/s; `half_width` is that of its 95 % interval, as a share. `times` is the
    ratio to REFERENCE in the same round, with its interval `low` to `high`: of rates with several
    concurrent tasks, of inverse median latencies with one. Above 1, the pool is better.
    """

    pool: str
    size: str
    concurrency: int
    rounds: int
    rate: float
    half_width: float | None
    p50_us: float
    p99_us: float
    cpu_us: float | None
    times: float | None
    low: float | None
    high: float | None


def summarize(lines: Sequence[Line]) -> list[Cell]:
    """Summarize the slices of each size, concurrency and pool; small sizes are first."""
    slices = group_slices(lines)
    times = {(t["size"], t["concurrency"], t["pool"]): t for t in lines if t["kind"] == "times"}
    return [
        _cell(key, found, times[key], slices.get((*key[:2], REFERENCE), []))
        for key, found in sorted(slices.items(), key=lambda each: (each[1][0]["bytes"], each[0][0]))
    ]


def group_slices(lines: Sequence[Line]) -> dict[tuple[str, int, str], list[Line]]:
    """Group the slices by size, concurrency and pool."""
    found: dict[tuple[str, int, str], list[Line]] = {}
    for line in lines:
        if line["kind"] == "slice":
            found.setdefault((line["size"], line["concurrency"], line["pool"]), []).append(line)
    return found


def _cell(
    key: tuple[str, int, str], slices: list[Line], quantiles: Line, reference: list[Line]
) -> Cell:
    size, concurrency, pool = key
    rates = [each["rate"] for each in slices]
    cpu = [each["cpu_us"] for each in slices if each["cpu_us"] is not None]
    times, low, high = performance_ratio(slices, reference, concurrency) or (None, None, None)
    if pool == REFERENCE:
        low = high = None
    spread = intervals.geometric_mean_ratio([(1.0, rate) for rate in rates])
    return Cell(
        pool,
        size,
        concurrency,
        len(slices),
        statistics.geometric_mean(rates),
        math.sqrt(spread[2] / spread[1]) - 1 if spread else None,
        quantiles["p50_us"],
        quantiles["p99_us"],
        statistics.median(cpu) if cpu else None,
        times,
        low,
        high,
    )


def performance_ratio(
    one: Sequence[Line], other: Sequence[Line], concurrency: int
) -> Interval | None:
    """Return the ratio of one pool to another in a cell, paired by round; above 1, one is better.

    This compares the rates, or with one concurrent task the inverse median latencies. None below
    two common rounds.
    """
    by_round = {each["round"]: each for each in other}
    pairs = [(by_round[each["round"]], each) for each in one if each["round"] in by_round]
    if concurrency > 1:
        return intervals.geometric_mean_ratio([(b["rate"], a["rate"]) for b, a in pairs])
    return intervals.geometric_mean_ratio([(a["p50_us"], b["p50_us"]) for b, a in pairs])
