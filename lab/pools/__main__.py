"""Measure every pool that is installed; print one line of JSON per result.

Usage: python -m lab.pools

Each pool has its own process, as in an application, so that its side effects (malloc thresholds,
threads, a fork server) do not affect the others. All processes exist for the whole benchmark.

    pool     pid of the process, seconds to start the pool, memory in MiB
    slice    one pool, size and number of concurrent tasks, for a short time
    times    quantiles over all slices of a pool, size and number of tasks
    mixture  latency of short tasks among long ones (with --mixture)
    chaos    throughput and failures while workers are killed (with --chaos)
    missing  why a pool cannot be measured, or has failed

In each round every pool has one slice per cell (a size and a number of concurrent tasks), in random
order. So rounds are blocks, and ratios within a round are paired.
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

from lab.pools import chaos
from lab.pools.contenders.adapters import CONTENDERS
from lab.pools.contenders.process import ContenderLost, ContenderProcess
from lab.pools.limits import LIMITS
from lab.pools.payloads import (
    ARGUMENT_VIEW_SIZES,
    CONCURRENCIES,
    RESULT_VIEW_SIZES,
    SIZES,
)
from offload.loads.engine.figures import quantile

# Pools that are measured at some sizes only.
ONLY = {
    "PipePool zero_copy_result": RESULT_VIEW_SIZES,
    "PipePool zero_copy_args": ARGUMENT_VIEW_SIZES,
}
MIXED = ("process", "PipePool")  # pools that are measured with the mixture
MIXTURES = 10  # rounds of the mixture
QUICK = {("10 MB", 64)}  # omitted with --quick: takes as long as all other cells together
MIN_ROUNDS = 3  # for a confidence interval


def main() -> None:
    """Read the settings and measure."""
    parser = argparse.ArgumentParser(prog="python -m lab.pools", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.25, help="duration of a slice")
    parser.add_argument("--budget", type=float, default=720.0, help="seconds for all rounds")
    parser.add_argument("--quick", action="store_true", help="omit the longest cell")
    parser.add_argument("--mixture", type=float, default=0.0, help="seconds of each mixture round")
    parser.add_argument("--chaos", type=int, default=0, help="seconds of each chaos test")
    parser.add_argument("--pools", default="", help="names of pools, separated by commas")
    args = parser.parse_args()
    names = args.pools.split(",") if args.pools else [*LIMITS, *CONTENDERS]
    if unknown := [name for name in names if name not in {**LIMITS, **CONTENDERS}]:
        print(f"unknown pool: {unknown[0]!r}", file=sys.stderr)
        sys.exit(2)
    _Bench(args.workers, args.seconds).run(names, args)


class _Bench:
    def __init__(self, workers: int, seconds: float) -> None:
        self._workers = workers
        self._seconds = seconds
        self._contenders: dict[str, ContenderProcess] = {}
        self._times: dict[tuple[str, str, int], array[float]] = {}

    def run(self, names: list[str], args: argparse.Namespace) -> None:
        """Start the pools, measure rounds until the budget is used, and stop the pools.

        The chaos tests run afterwards, in this process, in which no pool ran before.
        """
        try:
            for name in names:
                self._start(name)
            self._rounds(args.budget, QUICK if args.quick else set())
            if args.mixture:
                self._mixtures(args.mixture)
        finally:
            for each in self._contenders.values():
                each.close()
        for idempotent in (True, False) if args.chaos else ():
            result = asyncio.run(chaos.run_chaos(self._workers, idempotent, args.chaos))
            _print_line("chaos", "PipePool", **asdict(result))
        for (name, size, concurrency), times in self._times.items():
            _print_line(
                "times", name, size=size, concurrency=concurrency, n=len(times), **_quantiles(times)
            )

    def _start(self, name: str) -> None:
        self._contenders[name] = ContenderProcess(name, self._workers)
        if found := self._request(name, "start"):
            _print_line("pool", name, **found)

    def _request(self, name: str, what: str, *details: object, seconds: float = 0.0) -> Any:
        """Return a contender's response to a request; if it fails, remove it and return None."""
        try:
            return self._contenders[name].request(what, *details, seconds=seconds)
        except ContenderLost as error:
            _print_line("missing", name, why=str(error))
            self._contenders.pop(name).close()
            return None

    def _rounds(self, budget: float, without: set[tuple[str, int]]) -> None:
        """Measure the sizes in ascending order.

        A large value raises the malloc thresholds, and later values of 1 MB would reuse its pages.
        """
        number = 0
        for amount in sorted({*SIZES.values()}):
            sizes = [size for size in SIZES if SIZES[size] == amount]
            cells = [(s, n) for s in sizes for n in CONCURRENCIES if (s, n) not in without]
            share = budget * len(sizes) / len(SIZES)
            number = self._rounds_of(cells, number, time.monotonic() + share)

    def _rounds_of(self, cells: list[tuple[str, int]], first: int, end: float) -> int:
        """Measure these cells in rounds; return the number of the next round."""
        longest, number = 0.0, first
        while self._contenders and (
            number < first + MIN_ROUNDS or time.monotonic() + longest < end
        ):
            started = time.monotonic()
            for size, concurrency in random.sample(cells, len(cells)):
                for name in random.sample([*self._contenders], len(self._contenders)):
                    self._slice(number, name, size, concurrency)
            longest = max(longest, time.monotonic() - started)
            number += 1
        return number

    def _slice(self, number: int, name: str, size: str, concurrency: int) -> None:
        if name in LIMITS and (size != "no-op" or concurrency not in LIMITS[name].concurrencies):
            return
        if size not in ONLY.get(name, SIZES):
            return
        response = self._request(
            name, "slice", size, concurrency, self._seconds, seconds=self._seconds
        )
        if response is None:
            return
        times, took, cpu = response
        self._times.setdefault((name, size, concurrency), array("d")).extend(times)
        found = {"bytes": SIZES[size], "rate": len(times) / took, **_quantiles(times)}
        cpu_us = None if cpu is None else 1e6 * cpu / len(times)
        _print_line(
            "slice", name, size=size, concurrency=concurrency, round=number, cpu_us=cpu_us, **found
        )

    def _mixtures(self, seconds: float) -> None:
        for number in range(MIXTURES):
            names = [name for name in MIXED if name in self._contenders]
            for name in random.sample(names, len(names)):
                times = self._request(name, "mixture", seconds, number, seconds=seconds)
                if times is not None:
                    _print_line("mixture", name, round=number, n=len(times), **_quantiles(times))


def _quantiles(times: array[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"p50_us": 1e6 * quantile(ordered, 0.5), "p99_us": 1e6 * quantile(ordered, 0.99)}


def _print_line(kind: str, pool: str, **facts: object) -> None:
    print(json.dumps({"kind": kind, "pool": pool, **facts}), flush=True)


if __name__ == "__main__":
    main()
