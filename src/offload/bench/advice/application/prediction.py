"""The predicted rate of an application with a server and a size, from the probe of one process.

Each resource has a capacity, and the smallest one is the predicted rate (the asymptotic bounds of
operational analysis: Denning and Buzen 1978, Computing Surveys 10:3).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from offload.bench.advice.application.sizes import Size
from offload.bench.advice.inputs.overhead import MEASURING_CORES
from offload.registry import catalog


class Limit(StrEnum):
    """The resource that limits a predicted rate.

    PROCESS: each process has its own limit, such as the GIL or a blocked event loop. WORKERS: all
    threads, or all processes that handle one request at a time, are busy. CPU: all cores are busy.
    USERS: no request waits for another one.
    """

    PROCESS = "process"
    WORKERS = "workers"
    CPU = "cpu"
    USERS = "users"


@dataclass(frozen=True)
class Prediction:
    """A predicted rate in requests/s, and the resource that limits it."""

    rate: float
    limit: Limit


@dataclass(frozen=True)
class OneProcess:
    """The figures of one process with all users, from which other sizes are predicted.

    `rate` is in requests/s, `alone_s` is the response time of a single request, and `cpu_s` the CPU
    time of a request. None is unknown: then the capacities that need it are left out.
    """

    rate: float
    alone_s: float | None
    cpu_s: float | None

    def predict(self, server: str, size: Size, users: int, cores: int) -> Prediction:
        """Return the predicted rate of a server and a size.

        The overhead of `server` is assumed to be that of the server in the probe.
        """
        capacities = {Limit.PROCESS: size.processes * self.rate}
        return _smallest({**capacities, **self._others(server, size, users, cores)})

    def without_process_limit(
        self, server: str, size: Size, users: int, cores: int
    ) -> Prediction | None:
        """Return the predicted rate if a process had no limit of its own; None if unknown."""
        others = self._others(server, size, users, cores)
        return _smallest(others) if {Limit.CPU, Limit.USERS} <= others.keys() else None

    def _others(self, server: str, size: Size, users: int, cores: int) -> dict[Limit, float]:
        found: dict[Limit, float] = {}
        if self.alone_s:
            found[Limit.USERS] = users / self.alone_s
            if catalog.find_server(server).workers_are in ("threads", "processes"):
                found[Limit.WORKERS] = size.total / self.alone_s
        if self.cpu_s:
            found[Limit.CPU] = (cores - MEASURING_CORES) / self.cpu_s
        return found


def _smallest(capacities: dict[Limit, float]) -> Prediction:
    limit = min(capacities, key=lambda name: capacities[name])
    return Prediction(capacities[limit], limit)
