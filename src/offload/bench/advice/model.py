"""The model: the rate that a strategy reaches with a number of workers, from the probe.

Each resource of a request has a capacity, and the smallest capacity limits the rate (the asymptotic
bounds of operational analysis: Denning and Buzen 1978, Computing Surveys 10:3). Near the point
where two of them meet, the rate is below both; SHARPNESS is the exponent of that transition, a
guess until it is fitted to measurements. docs/advice.rst has the formulas with their sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offload.bench.advice.overhead import STRATEGIES, Overhead
from offload.bench.advice.probe import LOOP, PROCESSES, THREADS, Point, Probe

SHARPNESS = 8.0
SATURATED = 0.8  # of the rate that workers and cores allow, below which something else limits it
CROWDED = 0.25  # of a call's time spent waiting for a CPU: then the cores limit the rate
GIL_SHARE = 0.5  # of the limiting time that the GIL must be held to be the reason
ENOUGH = 0.97  # of the highest rate of a strategy: more workers are not worth their memory
SERVER_MIB = 12.0  # Tornado and the application, in addition to the task
FORK_SERVER_MIB = 9.0  # of the process that starts the workers
THREAD_MIB = 0.1
USERS, WORKERS, CPU, GIL, SERVER, EXTERNAL, TASK = (
    "users",
    "workers",
    "cpu",
    "gil",
    "server",
    "external",
    "task",
)


@dataclass(frozen=True)
class Prediction:
    """The predicted rate in requests/s, mean response time in s and memory in MiB.

    `limit` is the resource that limits the rate: users (there are no more requests), workers (all
    are busy), cpu (all cores are), gil, server (its event loop), task (on the loop, one runs at a
    time) or external (a lock, a pool of connections, or another machine).
    """

    strategy: str
    workers: int
    rate: float
    response_s: float
    memory_mib: float | None
    limit: str


@dataclass(frozen=True)
class Model:
    """The probe of a task, the overheads of this machine, and the number of concurrent users."""

    probe: Probe
    overheads: Mapping[str, Overhead]
    users: int

    def predict(self, strategy: str, workers: int) -> Prediction:
        """Predict a strategy with a number of workers (processes for prefork, 1 for loop)."""
        capacities = self._capacities(strategy, workers)
        rate = sum(x**-SHARPNESS for x in capacities.values()) ** (-1 / SHARPNESS)
        limit = min(capacities, key=lambda name: capacities[name])
        memory_mib = self._memory_mib(strategy, workers)
        return Prediction(strategy, workers, rate, self.users / rate, memory_mib, limit)

    def best_size(self, strategy: str) -> Prediction:
        """Return the smallest size that reaches nearly the highest rate of a strategy."""
        found = [self.predict(strategy, count) for count in self.sizes(strategy)]
        highest = max(each.rate for each in found)
        return next(each for each in found if each.rate >= ENOUGH * highest)

    def ranking(self) -> list[Prediction]:
        """Return the best size of each strategy, the highest rate first."""
        found = [self.best_size(strategy) for strategy in STRATEGIES]
        return sorted(found, key=lambda each: -each.rate)

    def sizes(self, strategy: str) -> list[int]:
        """Return the numbers of workers to consider, in ascending order."""
        if strategy == "loop":
            return [1]
        powers = {2**n for n in range(7)}
        most = min(64, self.users) if strategy == THREADS else min(32, self.users)
        return sorted({n for n in powers | {self.probe.cores, most} if n <= most})

    def settings(self, strategy: str, workers: int) -> dict[str, object]:
        """Return the settings of a strategy's server."""
        if strategy == "loop":
            return {}
        return {"processes" if strategy == "prefork" else "workers": workers}

    def _capacities(self, strategy: str, workers: int) -> dict[str, float]:
        probe, overhead = self.probe, self.overheads[strategy]
        alone_s = probe.wait_s + probe.cpu_s if probe.cpu_s < probe.wall_s else probe.wall_s
        capacities = {
            USERS: self.users / (alone_s + overhead.serial_s),
            CPU: probe.cores / (self._loaded_cpu_s() + overhead.cpu_s),
        }
        if strategy in ("loop", "prefork"):
            one = 1 / (self._on_loop_s(alone_s) + overhead.serial_s)
            capacities[TASK if strategy == "loop" else WORKERS] = workers * one
        else:
            capacities[SERVER] = 1 / overhead.serial_s
            if workers < self.users:
                capacities[WORKERS] = workers / (alone_s + overhead.serial_s)
        if strategy == THREADS:
            name, serial_s = self._serial_of_threads()
            if serial_s:
                capacities[name] = 1 / (serial_s + overhead.serial_s)
        elif strategy != "loop" and (limit := self._saturated(PROCESSES)) is not None:
            capacities[EXTERNAL] = limit.rate
        return capacities

    def _on_loop_s(self, alone_s: float) -> float:
        """The time for which a task occupies an event loop; a coroutine frees it by waiting."""
        points = self.probe.of_kind(LOOP)
        if not points:
            return alone_s
        return max(self.probe.cpu_s, 1 / points[-1].rate - alone_s / points[-1].count)

    def _loaded_cpu_s(self) -> float:
        """The CPU time of a call while all cores are busy, which share caches and their clock."""
        points = self.probe.of_kind(PROCESSES)
        return max(self.probe.cpu_s, points[0].cpu_s) if points else self.probe.cpu_s

    def _serial_of_threads(self) -> tuple[str, float]:
        """The time for which a call excludes the other threads, and the reason."""
        held_s = (self.probe.hold or 0.0) * self.probe.wall_s
        if (limit := self._saturated(THREADS)) is None:
            return GIL, held_s
        serial_s = 1 / limit.rate
        return (GIL if held_s >= GIL_SHARE * serial_s else EXTERNAL), serial_s

    def _saturated(self, kind: str) -> Point | None:
        """Return the point with the highest rate if neither workers nor cores limited it."""
        points = self.probe.of_kind(kind)
        if not points:
            return None
        best = max(points, key=lambda point: point.rate)
        if best.queued_s > CROWDED * best.wall_s:
            return None
        most = points[-1]
        allowed = min(most.count / self.probe.wall_s, self.probe.cores / self._loaded_cpu_s())
        return best if best.rate < SATURATED * allowed else None

    def _memory_mib(self, strategy: str, workers: int) -> float | None:
        probe = self.probe
        added = [p.worker_mib for p in probe.of_kind(PROCESSES) if p.worker_mib is not None]
        if probe.base_mib is None or not added:
            return None
        base_mib = probe.base_mib + SERVER_MIB
        each_mib = min(added)
        return {
            "loop": base_mib,
            "threads": base_mib + workers * THREAD_MIB,
            "processes": base_mib + FORK_SERVER_MIB + workers * each_mib,
            "pipes": base_mib + FORK_SERVER_MIB + workers * each_mib,
            "prefork": base_mib + workers * (each_mib + SERVER_MIB / 2),
        }[strategy]
