"""Measure every pool that is installed; print a line of JSON for each finding.

Usage: python -m bench.pool_comparison

Each has a process of its own, as it would have in an application: what a pool changes in its own
(the thresholds of malloc, threads, a fork server) helps or harms no other. All are alive at once.
`pool` lines tell that process's pid, what beginning the pool took and its memory, `slice` lines one
moment of one pool, and `times` lines the quantiles of all moments together. In a round every pool
has its moment in each cell of a size, in random order, so that rounds are blocks: ratios within one
are paired. When asked for, `mixture` lines tell what short tasks took among long ones, and `storm`
lines what kills did. A `missing` line says why a pool is not here, or has no further moment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from array import array
from dataclasses import asdict
from typing import Any

from bench.pool_comparison import chaos
from bench.pool_comparison.contender_process import ContenderLost, ContenderProcess
from bench.pool_comparison.contenders import CONTENDERS
from bench.pool_comparison.limits import LIMITS
from bench.pool_comparison.payloads import FLIGHTS, LEASED, LENT, SIZES
from bench.pool_comparison.slices import quantile

ONLY = {"PipePool leased": LEASED, "PipePool lent": LENT}  # the sizes of some pools
MIXED = ("process", "PipePool")  # that are given the mixture
MIXTURES = 10  # rounds of it
QUICK = {("10 MB", 64)}  # the cell that takes as long as all others together
LEAST = 3  # rounds: an interval needs some


def main() -> None:
    """Read the settings and measure."""
    words = argparse.ArgumentParser(prog="python -m bench.pool_comparison", description=__doc__)
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--seconds", type=float, default=0.25, help="of a slice")
    words.add_argument("--budget", type=float, default=720.0, help="s for all rounds")
    words.add_argument("--quick", action="store_true", help="leave the longest cell out")
    words.add_argument("--mixture", type=float, default=0.0, help="s of each of its rounds")
    words.add_argument("--storm", type=int, default=0, help="s")
    words.add_argument("--pools", default="", help="some of them, by commas")
    given = words.parse_args()
    names = given.pools.split(",") if given.pools else [*LIMITS, *CONTENDERS]
    if unknown := [name for name in names if name not in {**LIMITS, **CONTENDERS}]:
        print(f"no pool is called {unknown[0]!r}", file=sys.stderr)
        sys.exit(2)
    _Bench(given.workers, given.seconds).run(names, given)


class _Bench:
    def __init__(self, workers: int, seconds: float) -> None:
        self._workers = workers
        self._seconds = seconds
        self._apart: dict[str, ContenderProcess] = {}
        self._times: dict[tuple[str, str, int], array[float]] = {}

    def run(self, names: list[str], given: argparse.Namespace) -> None:
        """Begin the pools, measure rounds while there is time for one more, and end the pools.

        The storms come after that, in this process, where no pool has been.
        """
        try:
            for name in names:
                self._begin(name)
            self._rounds(given.budget, QUICK if given.quick else set())
            if given.mixture:
                self._mixtures(given.mixture)
        finally:
            for each in self._apart.values():
                each.close()
        for idempotent in (True, False) if given.storm else ():
            storm = asyncio.run(chaos.measure(self._workers, idempotent, given.storm))
            _tell("storm", "PipePool", **asdict(storm))
        for (name, size, flight), times in self._times.items():
            _tell("times", name, size=size, flight=flight, n=len(times), **_quantiles(times))

    def _begin(self, name: str) -> None:
        self._apart[name] = ContenderProcess(name, self._workers)
        if found := self._ask(name, "begin"):
            _tell("pool", name, **found)

    def _ask(self, name: str, what: str, *details: object, seconds: float = 0.0) -> Any:
        """Give a pool its turn and its answer; None and no further turn when it fails."""
        try:
            return self._apart[name].ask(what, *details, seconds=seconds)
        except ContenderLost as error:
            _tell("missing", name, why=str(error))
            self._apart.pop(name).close()
            return None

    def _rounds(self, budget: float, without: set[tuple[str, int]]) -> None:
        """Measure size after size, the smallest first.

        What was large raises the thresholds of malloc, and the next 1 MB would find its pages kept.
        """
        number = 0
        for amount in sorted({*SIZES.values()}):
            sizes = [size for size in SIZES if SIZES[size] == amount]
            cells = [(s, n) for s in sizes for n in FLIGHTS if (s, n) not in without]
            share = budget * len(sizes) / len(SIZES)
            number = self._rounds_of(cells, number, time.monotonic() + share)

    def _rounds_of(self, cells: list[tuple[str, int]], first: int, end: float) -> int:
        """Measure these cells in rounds; give the number of the next round."""
        longest, number = 0.0, first
        while self._apart and (number < first + LEAST or time.monotonic() + longest < end):
            began = time.monotonic()
            for size, flight in random.sample(cells, len(cells)):
                for name in random.sample([*self._apart], len(self._apart)):
                    self._slice(number, name, size, flight)
            longest = max(longest, time.monotonic() - began)
            number += 1
        return number

    def _slice(self, number: int, name: str, size: str, flight: int) -> None:
        if name in LIMITS and (size != "no-op" or flight not in LIMITS[name].flights):
            return
        if size not in ONLY.get(name, SIZES):
            return
        answer = self._ask(name, "slice", size, flight, self._seconds, seconds=self._seconds)
        if answer is None:
            return
        times, took, cpu = answer
        self._times.setdefault((name, size, flight), array("d")).extend(times)
        found = {"bytes": SIZES[size], "rate": len(times) / took, **_quantiles(times)}
        cpu_us = None if cpu is None else 1e6 * cpu / len(times)
        _tell("slice", name, size=size, flight=flight, round=number, cpu_us=cpu_us, **found)

    def _mixtures(self, seconds: float) -> None:
        for number in range(MIXTURES):
            names = [name for name in MIXED if name in self._apart]
            for name in random.sample(names, len(names)):
                times = self._ask(name, "mixture", seconds, number, seconds=seconds)
                if times is not None:
                    _tell("mixture", name, round=number, n=len(times), **_quantiles(times))


def _quantiles(times: array[float]) -> dict[str, float]:
    return {"p50_us": 1e6 * quantile(times, 0.5), "p99_us": 1e6 * quantile(times, 0.99)}


def _tell(kind: str, pool: str, **facts: object) -> None:
    print(json.dumps({"kind": kind, "pool": pool, **facts}), flush=True)


if __name__ == "__main__":
    main()
