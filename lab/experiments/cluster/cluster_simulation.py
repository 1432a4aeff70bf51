"""A discrete-event simulation of a dask cluster with more machines than can be measured here.

client's loop --submit--> scheduler's loop --> N workers --> scheduler's loop --> client's loop

Each loop is one thread, so it serves one task after another; a worker runs one task at a time. CPU
times are exponentially distributed, which is a guess: messages, garbage collection and heartbeats
make them vary. On two machines the rates differed from measured ones by up to 7 % and 24 %; with
constant times, by up to 11 % and 46 %. The simulation has no caches and no kernel, and its network
only adds a fixed delay.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

WARM = 0.4  # share of the tasks before the measurement
MIN_BATCHES = 100
VARIATION = 0.1  # standard deviation of the times of a task, as a share
Process = Generator[Any, Any, None]


@dataclass(frozen=True)
class Costs:
    """What one task costs, and each submission of one or more tasks, in s of CPU.

    The client and the scheduler are the threads of their loops; the worker's costs are those
    besides the task. `delay_s` is the time in which a task waits for messages, without CPU.
    """

    client_s: float
    scheduler_s: float
    worker_s: float
    client_message_s: float
    scheduler_message_s: float
    worker_message_s: float
    delay_s: float


@dataclass(frozen=True)
class Cluster:
    """A cluster with a number of workers.

    `cores` is the number of cores that all processes share; None if each has its own. `batch` is
    the number of tasks in a submission. `submitters` is the number of submissions in flight; enough
    of them keep every worker busy.
    """

    costs: Costs
    workers: int
    submitters: int
    batch: int = 1
    cores: int | None = None

    @property
    def limit(self) -> float:
        """The tasks/s that the busier loop can pass: the client's or the scheduler's."""
        costs = self.costs
        client_s = costs.client_s + costs.client_message_s / self.batch
        return 1 / max(client_s, costs.scheduler_s + costs.scheduler_message_s / self.batch)

    def rate(self, task_s: float, tasks: int = 2000) -> float:
        """Return the simulated rate in tasks/s for tasks that wait for `task_s` in a worker."""
        return _Simulation(self, task_s).rate(tasks)


class _Simulation:
    def __init__(self, cluster: Cluster, task_s: float) -> None:
        self._cluster, self._task_s = cluster, task_s
        self._environment = simpy.Environment()
        self._client = simpy.Resource(self._environment)
        self._scheduler = simpy.Resource(self._environment)
        self._workers = simpy.Resource(self._environment, cluster.workers)
        processes = cluster.workers + 2
        self._cores = simpy.Resource(self._environment, cluster.cores or processes)
        self._random = random.Random(1)  # noqa: S311 - repeatable
        self._ends: list[float] = []

    def rate(self, tasks: int) -> float:
        """Submit until at least `tasks` tasks and MIN_BATCHES submissions have a result."""
        tasks = max(tasks, MIN_BATCHES * self._cluster.batch)
        for _ in range(self._cluster.submitters):
            self._environment.process(self._submitter())
        while len(self._ends) < tasks:
            self._environment.step()
        start = self._ends[int(WARM * tasks)]
        counted = len(self._ends) - bisect_right(self._ends, start)  # a batch ends at one time
        return counted / (self._ends[-1] - start)

    def _submitter(self) -> Process:
        costs, batch = self._cluster.costs, self._cluster.batch
        while True:
            client_s = costs.client_message_s + batch * costs.client_s
            scheduler_s = costs.scheduler_message_s + batch * costs.scheduler_s / 2
            yield from self._on(self._client, client_s / 2)
            yield self._environment.timeout(costs.delay_s / 2)
            yield from self._on(self._scheduler, scheduler_s)
            yield self._environment.all_of(
                [self._environment.process(self._task()) for _ in range(batch)]
            )
            yield self._environment.timeout(costs.delay_s / 2)
            yield from self._on(self._client, client_s / 2)
            self._ends += [self._environment.now] * batch

    def _task(self) -> Process:
        costs = self._cluster.costs
        with self._workers.request() as worker:
            yield worker
            yield from self._compute(costs.worker_s + costs.worker_message_s / self._cluster.batch)
            task_s = self._random.gauss(self._task_s, VARIATION * self._task_s)
            yield self._environment.timeout(max(0.0, task_s))
        yield from self._on(self._scheduler, costs.scheduler_s / 2)

    def _on(self, loop: simpy.Resource, seconds: float) -> Process:
        with loop.request() as turn:
            yield turn
            yield from self._compute(seconds)

    def _compute(self, seconds: float) -> Process:
        with self._cores.request() as core:
            yield core
            yield self._environment.timeout(self._random.expovariate(1 / seconds) if seconds else 0)
