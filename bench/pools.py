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
from bench.stats import student
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


def measure(quick: bool, workers: int, tell: Callable[[str], None]) -> list[Line]:
    """Measure every pool that is here, in a process of its own; raise RunError when it fails."""
    seconds, budget = BUDGET[quick]
    words = [f"--workers={workers}", f"--seconds={seconds}", f"--budget={budget}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "executors", *words, *(["--quick"] if quick else [])],
        cwd=catalog.ROOT,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    found: list[Line] = []
    rounds = 0
    try:
        for line in _lines(process, time.monotonic() + budget + PATIENCE):
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
    slices: dict[tuple[str, int, str], list[Line]] = {}
    for line in lines:
        if line["kind"] == "slice":
            slices.setdefault((line["size"], line["flight"], line["pool"]), []).append(line)
    times = {(t["size"], t["flight"], t["pool"]): t for t in lines if t["kind"] == "times"}
    return [
        _cell(key, found, times[key], slices.get((*key[:2], REFERENCE), []))
        for key, found in sorted(slices.items(), key=lambda each: (each[1][0]["bytes"], each[0][0]))
    ]


def _cell(
    key: tuple[str, int, str], slices: list[Line], times: Line, reference: list[Line]
) -> Cell:
    size, flight, pool = key
    rates = [each["rate"] for each in slices]
    cpu = [each["cpu_us"] for each in slices if each["cpu_us"] is not None]
    by_round = {each["round"]: each for each in reference}
    pairs = [(each, by_round[each["round"]]) for each in slices if each["round"] in by_round]
    logs = [
        math.log(a["rate"] / b["rate"] if flight > 1 else b["p50_us"] / a["p50_us"])
        for a, b in pairs
    ]
    interval = _interval(logs) if pool != REFERENCE else None
    low, high = interval or (None, None)
    spread = _interval([math.log(rate) for rate in rates])
    return Cell(
        pool,
        size,
        flight,
        len(slices),
        statistics.geometric_mean(rates),
        math.expm1((spread[1] - spread[0]) / 2) if spread else None,
        times["p50_us"],
        times["p99_us"],
        statistics.median(cpu) if cpu else None,
        math.exp(statistics.fmean(logs)) if logs else None,
        low and math.exp(low),
        high and math.exp(high),
    )


def _interval(logs: list[float]) -> tuple[float, float] | None:
    return student.mean_interval(logs) if len(logs) > 1 else None
