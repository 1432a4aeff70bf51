"""The cells of the pools' tables: what each did with one size and so many tasks at once."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.pools.run import Line
from offload.bench.stats import ratio
from offload.bench.stats.ratio import Interval

REFERENCE = "process"  # the standard pool of processes, begun by forkserver


@dataclass(frozen=True)
class Cell:
    """What one pool did with one size and so many tasks at once; None is not known.

    `rate` is in tasks a second, with the 95 % interval's half-width as a share. `times` is how many
    times better than REFERENCE it was in the same round, `low` and `high` the interval of that: its
    rate at 64 tasks at once, its median at 1.
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
    """Sum the slices of each pool, size and number at once up, the small sizes first."""
    slices = group_slices(lines)
    times = {(t["size"], t["concurrency"], t["pool"]): t for t in lines if t["kind"] == "times"}
    return [
        _cell(key, found, times[key], slices.get((*key[:2], REFERENCE), []))
        for key, found in sorted(slices.items(), key=lambda each: (each[1][0]["bytes"], each[0][0]))
    ]


def group_slices(lines: Sequence[Line]) -> dict[tuple[str, int, str], list[Line]]:
    """Sort the slices by size, number at once and pool."""
    found: dict[tuple[str, int, str], list[Line]] = {}
    for line in lines:
        if line["kind"] == "slice":
            found.setdefault((line["size"], line["concurrency"], line["pool"]), []).append(line)
    return found


def _cell(
    key: tuple[str, int, str], slices: list[Line], moments: Line, reference: list[Line]
) -> Cell:
    size, concurrency, pool = key
    rates = [each["rate"] for each in slices]
    cpu = [each["cpu_us"] for each in slices if each["cpu_us"] is not None]
    times, low, high = times_as_good(slices, reference, concurrency) or (None, None, None)
    if pool == REFERENCE:
        low = high = None
    spread = ratio.geometric_mean_ratio([(1.0, rate) for rate in rates])
    return Cell(
        pool,
        size,
        concurrency,
        len(slices),
        statistics.geometric_mean(rates),
        math.sqrt(spread[2] / spread[1]) - 1 if spread else None,
        moments["p50_us"],
        moments["p99_us"],
        statistics.median(cpu) if cpu else None,
        times,
        low,
        high,
    )


def times_as_good(one: Sequence[Line], other: Sequence[Line], concurrency: int) -> Interval | None:
    """Give how many times as good one pool's slices of a cell are as another's of the same rounds.

    By their rates, or by their medians where there is one task at once; None below two rounds.
    """
    by_round = {each["round"]: each for each in other}
    pairs = [(by_round[each["round"]], each) for each in one if each["round"] in by_round]
    if concurrency > 1:
        return ratio.geometric_mean_ratio([(b["rate"], a["rate"]) for b, a in pairs])
    return ratio.geometric_mean_ratio([(a["p50_us"], b["p50_us"]) for b, a in pairs])
