"""The pools of workers against one another: what `python -m executors` finds, with intervals."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import catalog
from bench.stats import ratio
from bench.stats.ratio import Interval
from errors import RunError

REFERENCE = "process"  # the standard pool of processes, begun by forkserver
BUDGET = {False: (0.25, 660.0), True: (0.05, 60.0)}  # s of a slice and of all rounds; with quick
PATIENCE = 120.0  # s beyond that: to begin all pools, for the last round and to end

Line = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """What one pool did with one size and so many tasks at once; None is not known.

    `rate` is in tasks a second, with the 95 % interval's half-width as a share. `times` is how many
    times better than REFERENCE it was in the same round, `low` and `high` the interval of that: its
    rate at 64 tasks at once, its median at 1.
    """

    pool: str
    size: str
    flight: int
    rounds: int
    rate: float
    half_width: float | None
    p50_us: float
    p99_us: float
    cpu_us: float | None
    times: float | None
    low: float | None
    high: float | None


def measure(
    quick: bool,
    workers: int,
    tell: Callable[[str], None],
    more: Sequence[str] = (),
    more_s: float = 0.0,
) -> list[Line]:
    """Measure every pool that is here, in a process of its own; raise RunError when it fails.

    `more` are further words for `python -m executors`, and `more_s` what they take beside rounds.
    """
    seconds, budget = BUDGET[quick]
    words = [f"--workers={workers}", f"--seconds={seconds}", f"--budget={budget}", *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "executors", *words, *(["--quick"] if quick else [])],
        cwd=catalog.ROOT,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    found: list[Line] = []
    rounds = 0
    try:
        for line in _lines(process, time.monotonic() + budget + more_s + PATIENCE):
            if line["kind"] == "missing":
                tell(f"without {line['pool']}: {line['why']}")
            elif line["kind"] == "slice" and line["round"] == rounds:
                rounds += 1
                tell(f"round {rounds}")
            found.append(line)
        if process.wait(PATIENCE):
            raise RunError("python -m executors failed: see its own words")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return found


def _lines(process: subprocess.Popen[bytes], until: float) -> Iterator[Line]:
    assert process.stdout is not None
    data = b""
    while True:
        if not select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
            raise RunError("python -m executors did not end in time: a pool of it hangs")
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            return
        *whole, data = (data + piece).split(b"\n")
        yield from map(json.loads, whole)


def cells(lines: Sequence[Line]) -> list[Cell]:
    """Sum the slices of each pool, size and number at once up, the small sizes first."""
    slices = slices_of(lines)
    times = {(t["size"], t["flight"], t["pool"]): t for t in lines if t["kind"] == "times"}
    return [
        _cell(key, found, times[key], slices.get((*key[:2], REFERENCE), []))
        for key, found in sorted(slices.items(), key=lambda each: (each[1][0]["bytes"], each[0][0]))
    ]


def slices_of(lines: Sequence[Line]) -> dict[tuple[str, int, str], list[Line]]:
    """Sort the slices by size, number at once and pool."""
    found: dict[tuple[str, int, str], list[Line]] = {}
    for line in lines:
        if line["kind"] == "slice":
            found.setdefault((line["size"], line["flight"], line["pool"]), []).append(line)
    return found


def _cell(
    key: tuple[str, int, str], slices: list[Line], moments: Line, reference: list[Line]
) -> Cell:
    size, flight, pool = key
    rates = [each["rate"] for each in slices]
    cpu = [each["cpu_us"] for each in slices if each["cpu_us"] is not None]
    times, low, high = times_as_good(slices, reference, flight) or (None, None, None)
    if pool == REFERENCE:
        low = high = None
    spread = ratio.geometric([(1.0, rate) for rate in rates])
    return Cell(
        pool,
        size,
        flight,
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


def times_as_good(one: Sequence[Line], other: Sequence[Line], flight: int) -> Interval | None:
    """Give how many times as good one pool's slices of a cell are as another's of the same rounds.

    By their rates, or by their medians where there is one task at once; None below two rounds.
    """
    by_round = {each["round"]: each for each in other}
    pairs = [(by_round[each["round"]], each) for each in one if each["round"] in by_round]
    if flight > 1:
        return ratio.geometric([(b["rate"], a["rate"]) for b, a in pairs])
    return ratio.geometric([(a["p50_us"], b["p50_us"]) for b, a in pairs])
