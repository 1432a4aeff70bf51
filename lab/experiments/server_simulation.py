"""A discrete-event simulation of servers, to check the model for more cores than this machine has.

It simulates users, an event loop, workers, cores and a GIL, one request after the other, and knows
none of the model's formulas. It is no measurement: it has no caches, no kernel and no network.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from offload.bench.advice.inputs.overhead import Overhead

SLICE_S = 0.003  # for which a core runs a thread while others wait: about a slice of Linux
SWITCH_S = 0.005  # after which a thread that computes releases the GIL, if others wait for it
VARIATION = 0.1  # standard deviation of the times of a call, as a share
WARM = 0.2  # share of the requests before the measurement
Process = Generator[Any, Any, None]


@dataclass(frozen=True)
class Call:
    """A call: it waits for `wait_s` and computes for `cpu_s`, a share `hold` of it with the GIL."""

    wait_s: float
    cpu_s: float
    hold: float = 0.0


def rate(
    strategy: str,
    workers: int,
    call: Call,
    cores: int,
    users: int,
    overhead: Overhead,
    requests: int = 1000,
    seed: int = 1,
) -> float:
    """Return the simulated rate in requests/s of a strategy with a number of workers."""
    return _Simulation(strategy, workers, call, cores, overhead, seed).rate(users, requests)


class _Simulation:
    """One server: `loops` run its own code, and `slots` the calls."""

    def __init__(
        self, strategy: str, workers: int, call: Call, cores: int, overhead: Overhead, seed: int
    ) -> None:
        self._environment = simpy.Environment()
        self._strategy, self._call, self._overhead = strategy, call, overhead
        count = 1 if strategy == "loop" else workers
        loops = count if strategy in ("loop", "prefork") else 1
        self._cores = simpy.Resource(self._environment, cores)
        self._loops = [simpy.Resource(self._environment) for _ in range(loops)]
        self._slots = simpy.Resource(self._environment, count)
        self._gil = simpy.Resource(self._environment)
        self._random = random.Random(seed)  # noqa: S311 - repeatable
        self._ends: list[float] = []

    def rate(self, users: int, requests: int) -> float:
        """Let users send requests until `requests` have a response."""
        for _ in range(users):
            self._environment.process(self._user())
        while len(self._ends) < requests:
            self._environment.step()
        first = int(WARM * requests)
        return (requests - 1 - first) / (self._ends[requests - 1] - self._ends[first])

    def _user(self) -> Process:
        while True:
            yield from self._request()
            self._ends.append(self._environment.now)

    def _request(self) -> Process:
        """The load tool and the kernel use a core, the server's loop its thread and a core."""
        outside_s = max(0.0, self._overhead.cpu_s - self._overhead.serial_s)
        yield from self._compute(outside_s)
        if self._strategy in ("loop", "prefork"):
            yield from self._on_own_loop()
            return
        [loop] = self._loops
        yield from self._on_loop(loop, self._overhead.serial_s / 2)
        with self._slots.request() as slot:
            yield slot
            yield from self._run_call()
        yield from self._on_loop(loop, self._overhead.serial_s / 2)

    def _on_own_loop(self) -> Process:
        """An idle process accepts the connection; its loop runs the call."""
        with self._slots.request() as slot:
            yield slot
            yield from self._compute(self._overhead.serial_s)
            yield from self._run_call()

    def _on_loop(self, loop: simpy.Resource, seconds: float) -> Process:
        with loop.request() as turn:
            yield turn
            yield from self._compute(seconds, needs_gil=self._strategy == "threads")

    def _run_call(self) -> Process:
        yield self._environment.timeout(self._varied(self._call.wait_s))
        cpu_s = self._varied(self._call.cpu_s)
        held_s = cpu_s * self._call.hold
        yield from self._compute(held_s, needs_gil=self._strategy == "threads")
        yield from self._compute(cpu_s - held_s)

    def _compute(self, seconds: float, needs_gil: bool = False) -> Process:
        """Use a core in slices; a thread that needs the GIL holds it in longer ones."""
        left_s = seconds
        while left_s > 0 and needs_gil:
            with self._gil.request() as lock:
                yield lock
                part_s = min(left_s, SWITCH_S)
                yield from self._use_core(part_s)
                left_s -= part_s
        if not needs_gil:
            yield from self._use_core(seconds)

    def _use_core(self, seconds: float) -> Process:
        left_s = seconds
        while left_s > 0:
            with self._cores.request() as core:
                yield core
                part_s = min(left_s, SLICE_S)
                yield self._environment.timeout(part_s)
                left_s -= part_s

    def _varied(self, seconds: float) -> float:
        return max(0.0, self._random.gauss(seconds, VARIATION * seconds))
