"""The model: the rate that a strategy reaches with a number of workers, from the probe.

Each resource of a request has a capacity, and the smallest capacity limits the rate (the asymptotic
bounds of operational analysis: Denning and Buzen 1978, Computing Surveys 10:3). Near the point
where two of them meet, the rate is below both; SHARPNESS is the exponent of that transition, a
guess until it is fitted to measurements. lab/advice.rst has the formulas with their sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from offload.bench.advice.inputs.overhead import MEASURING_CORES, WAITING_WORKERS, Overhead
from offload.bench.advice.inputs.probe import PROCESSES, THREADS, Probe
from offload.bench.advice.prediction import memory
from offload.bench.advice.prediction.event_loops import EventLoops, in_step_share
from offload.bench.advice.prediction.limits import (
    COMMON,
    CPU,
    EXTERNAL,
    GIL,
    SERVER,
    TASK,
    USERS,
    WORKERS,
    find_limited_loop_point,
    find_limited_point,
    find_thread_limit,
    name_process_limit,
)
from offload.bench.advice.prediction.shared_cores import (
    IN_STEP,
    IN_STEP_PREFORK,
    SLICE_S,
    in_step_rate,
    shared_rate,
)
from offload.bench.advice.strategies import MOST_WORKERS, STRATEGIES

SHARPNESS = 8.0
# Share of the idle time that is left with more workers than cores [0.4 to 0.9]
IDLE_WITH_MORE_WORKERS = 0.6
# Share of the CPU time of all other users' requests for which a request waits for a core although a
# worker is free; fitted [0.1 to 0.6]. It is larger for prefork, perhaps because a process may
# accept two connections while another one has none.
QUEUED_USERS, QUEUED_USERS_PREFORK = 0.2, 1 / 3
# Share of a strategy's highest rate: beyond it, workers are not worth their memory
NEARLY_HIGHEST = 0.97
NO_OVERHEAD = Overhead(0.0, 0.0)


@dataclass(frozen=True)
class Prediction:
    """The predicted rate in requests/s and memory in MiB of a strategy with a number of workers.

    `limit` is the resource that limits the rate: users (there are no more requests), workers (all
    are busy), cpu (all cores are), gil, server (its event loop), task (on the loop, one runs at a
    time) or external (a lock, a pool of connections, or another machine). The memory is None if it
    is unknown.
    """

    strategy: str
    workers: int
    rate: float
    memory_mib: float | None
    limit: str


@dataclass(frozen=True)
class Model:
    """The probe of a task, the overheads of this machine, and the number of concurrent users.

    Sizes whose predicted memory exceeds `memory_mib` are not considered (None: unlimited). Each
    request needs the times of `additional` besides the overhead.
    """

    probe: Probe
    overheads: Mapping[str, Overhead]
    users: int
    memory_mib: float | None = None
    additional: Overhead = NO_OVERHEAD

    def predict(self, strategy: str, workers: int) -> Prediction:
        """Predict a strategy with a number of workers (processes for prefork, 1 for loop)."""
        capacities = list(self._capacities(strategy, workers))
        common = min(each for name, each in capacities if name in COMMON)
        serial = [each for name, each in capacities if name not in COMMON]
        rate = sum(x**-SHARPNESS for x in (common, *serial)) ** (-1 / SHARPNESS)
        limit, _ = min(capacities, key=lambda pair: pair[1])
        memory_mib = memory.predict_mib(self.probe, strategy, workers)
        return Prediction(strategy, workers, rate, memory_mib, limit)

    def best_size(self, strategy: str) -> Prediction | None:
        """Return the smallest size that reaches nearly the highest rate of a strategy.

        None if `sizes` is empty.
        """
        found = [self.predict(strategy, count) for count in self.sizes(strategy)]
        if not found:
            return None
        highest = max(each.rate for each in found)
        return next(each for each in found if each.rate >= NEARLY_HIGHEST * highest)

    def ranking(self) -> list[Prediction]:
        """Return the best size of each strategy that fits, the highest rate first."""
        found = [best for strategy in STRATEGIES if (best := self.best_size(strategy)) is not None]
        return sorted(found, key=lambda each: -each.rate)

    def sizes(self, strategy: str) -> list[int]:
        """Return the numbers of workers to consider, in ascending order.

        It is empty if the function `fails_in` the strategy, and if no size fits into the memory.
        """
        if self.fails_in(strategy):
            return []
        most = min(MOST_WORKERS[strategy], self.users)
        found = {*(2**n for n in range(7)), self.probe.cores, most}
        return sorted(n for n in found if n <= most and self._fits(strategy, n))

    def fails_in(self, strategy: str) -> bool:
        """Whether the function fails, or returns wrong results, with several workers.

        A coroutine that belongs to one event loop fails in processes that use a new loop for each
        call, but not in those of prefork. There it fails if it cannot run beside another call.
        """
        if strategy == "threads":
            return self.probe.is_unsafe_in_threads
        if self._runs_on_loops(strategy):
            return self.users > 1 and self.probe.fails_on_loop
        return self.probe.fails_in_processes

    def _runs_on_loops(self, strategy: str) -> bool:
        """Whether the calls run on the event loops of a server, without other workers."""
        return strategy == "loop" or (strategy == "prefork" and self.probe.is_coroutine)

    def _fits(self, strategy: str, workers: int) -> bool:
        """Whether a size fits into the memory limit; a size with unknown memory fits."""
        needed = memory.predict_mib(self.probe, strategy, workers)
        return self.memory_mib is None or needed is None or needed <= self.memory_mib

    def _capacities(self, strategy: str, workers: int) -> Iterator[tuple[str, float]]:
        """Yield each resource that the strategy uses, with its capacity in requests/s."""
        probe, overhead = self.probe, self._overhead(strategy, workers)
        cpu_s = self._loaded_cpu_s(strategy, workers)
        by_cores = self._cores / (cpu_s + overhead.cpu_s)
        yield USERS, self._users_capacity(strategy, overhead, by_cores)
        yield CPU, by_cores
        if self._runs_on_loops(strategy):
            yield self._limit_of_loops(workers, cpu_s, overhead)
            if (point := find_limited_loop_point(probe)) is not None:
                yield name_process_limit(probe, point), workers * point.rate
        else:
            yield self._limit_of_workers(strategy, min(workers, self.users), cpu_s, overhead)
        if strategy not in ("loop", "prefork"):
            yield SERVER, 1 / overhead.serial_s
        if strategy == "threads":
            yield from self._limit_of_threads(workers, overhead)
        elif strategy != "loop" and (point := find_limited_point(probe, PROCESSES)) is not None:
            yield EXTERNAL, point.rate

    def _limit_of_threads(self, workers: int, overhead: Overhead) -> Iterator[tuple[str, float]]:
        """Yield what all threads share, if anything: the GIL, or an external resource."""
        call = self.probe.call
        name, call_s = find_thread_limit(self.probe)
        serial_s = call_s + overhead.serial_s
        if name == GIL and call_s / call.bursts >= SLICE_S:
            free_s = max(0.0, call.wall_s - call_s)
            yield GIL, in_step_rate(min(workers, self.users), 1, free_s, serial_s)
        elif call_s:
            yield name, 1 / serial_s

    def _limit_of_loops(self, count: int, cpu_s: float, overhead: Overhead) -> tuple[str, float]:
        """Return the resource that limits event loops, and their rate in requests/s."""
        probe, own_s = self.probe, self.probe.on_loop_s + overhead.serial_s
        used_s = cpu_s + overhead.cpu_s
        loops = EventLoops(count, self._cores, probe.awaited_s, own_s, used_s)
        rate = loops.rate(self.users, in_step_share(probe))
        if self.users * loops.bottleneck_s <= loops.awaited_s:
            return USERS, rate
        if own_s / count < loops.bottleneck_s:
            return CPU, rate
        return (TASK if count == 1 else WORKERS), rate

    def _users_capacity(self, strategy: str, overhead: Overhead, cpu_capacity: float) -> float:
        """Return the rate in requests/s if each user has a worker.

        A request waits for a core behind those of other users, unless each of them has a core.
        """
        alone_s = self.probe.call.wait_s + overhead.serial_s + self.probe.call.busy_s
        may_accept_two = strategy == "prefork" and (
            not self.probe.is_coroutine or self.probe.blocks_loop
        )
        share = QUEUED_USERS_PREFORK if may_accept_two else QUEUED_USERS
        others = max(0.0, self.users - self.probe.capacity)
        queued_s = share * others / cpu_capacity
        return self.users / (alone_s + queued_s)

    def _overhead(self, strategy: str, workers: int) -> Overhead:
        """Return the overhead of a call; the time for which a core is idle counts as CPU time."""
        call, known = self.probe.call, self.overheads[strategy]
        # A coroutine in prefork does not occupy its worker.
        is_awaited = strategy == "prefork" and self.probe.is_coroutine
        wait_s = 0.0 if is_awaited else call.wait_s
        wake_ups = self._wake_ups(workers) if strategy == "prefork" else 0.0
        own = known.of_call(wait_s, call.cpu_s, call.body_bytes, wake_ups)
        idle_s = known.idle_s or 0.0
        if workers < self.probe.cores or known.waits(wait_s) or is_awaited:
            idle_s = 0.0  # while a call waits, another one uses the core
        elif workers > self.probe.cores:
            idle_s *= IDLE_WITH_MORE_WORKERS
        return own.plus(Overhead(0.0, self.probe.upstream_cpu_s + idle_s)).plus(self.additional)

    def _wake_ups(self, processes: int) -> float:
        """Return the share of the wake-ups of `Overhead.waiting` that a request of prefork has.

        It is proportional to log(processes / cores). On a machine with at least as many cores as
        `waiting` had processes, it is unknown and assumed to be 0.
        """
        cores, most = self.probe.cores, WAITING_WORKERS["prefork"]
        if processes <= cores or most <= cores:
            return 0.0
        return min(1.0, math.log(processes / cores) / math.log(most / cores))

    @property
    def _cores(self) -> float:
        """The cores that the measurement leaves to the server and the load tool."""
        return self.probe.capacity - min(MEASURING_CORES, self.probe.capacity / 2)

    def _limit_of_workers(
        self, strategy: str, busy: int, cpu_s: float, overhead: Overhead
    ) -> tuple[str, float]:
        """Return the resource that limits the workers, and the rate of all workers in calls/s.

        The workers share the cores with the overhead of their requests. Calls that use several
        cores at once are modelled as shorter calls on fewer cores.
        """
        call = self.probe.call
        cores, busy_s = self._cores / call.parallelism, cpu_s / call.parallelism
        busy_s += overhead.cpu_s
        in_step = IN_STEP_PREFORK if strategy == "prefork" else IN_STEP
        rate = shared_rate(busy, cores, call.wait_s, busy_s, in_step, call.bursts)
        if busy * busy_s >= cores * (call.wait_s + busy_s):
            return CPU, rate
        return (USERS if busy >= self.users else WORKERS), rate

    def _loaded_cpu_s(self, strategy: str, workers: int) -> float:
        """Return the CPU time of a call in s while the workers of a strategy keep all cores busy.

        For a call that uses several cores it depends on the number of workers: one worker runs a
        call alone, and several calls compete for cores, in threads less than in processes.
        """
        call = self.probe.call
        if call.parallelism > 1 and (strategy == "loop" or workers == 1):
            return call.cpu_s
        in_threads = call.parallelism > 1 and strategy == "threads"
        cpu_s = self.probe.cpu_s_on_busy_cores(THREADS if in_threads else PROCESSES)
        return cpu_s * self.probe.kept_pages_factor if strategy == "pipes" else cpu_s
