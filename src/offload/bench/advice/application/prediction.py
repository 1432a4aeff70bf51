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
from offload.registry.entries import Entry

OWN_LIMIT = 0.9  # share of the other capacities, below which the process limits its rate; a guess


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
    """One process of a server with all users, from which other sizes are predicted.

    `rate` is in requests/s. `alone_s` is the response time of a single request, `worker_s` the time
    for which a request occupies a thread, and `cpu_s` the CPU time of a request in the server and
    in the load tool. None is unknown: then the capacities that need it are left out.
    """

    server: str
    size: Size
    users: int
    cores: int
    rate: float
    alone_s: float | None
    worker_s: float | None
    cpu_s: float | None

    def predict(self, server: str, size: Size, cores: int | None = None) -> Prediction | None:
        """Return the predicted rate of a server and a size; None if they cannot be compared.

        The overhead of `server` is assumed to be that of the probe's server. `cores` is the number
        of cores of another machine.
        """
        if not self._is_comparable(catalog.find_server(server)):
            return None
        capacities = self._shared_capacities(server, size, cores or self.cores)
        if self._limits_itself:
            capacities[Limit.PROCESS] = size.processes * self.rate
        return _smallest(capacities)

    def without_own_limit(self, server: str, size: Size) -> Prediction | None:
        """Return the predicted rate if a process had no limit of its own; None if unknown."""
        found = self._shared_capacities(server, size, self.cores)
        return _smallest(found) if {Limit.CPU, Limit.USERS} <= found.keys() else None

    @property
    def _limits_itself(self) -> bool:
        """Whether the process, and not what it shares with others, limits its rate."""
        others = self._shared_capacities(self.server, self.size, self.cores)
        return not others or self.rate < OWN_LIMIT * min(others.values())

    def _is_comparable(self, other: Entry) -> bool:
        """Whether a server runs the same kind of application, without a limit of the probe."""
        has_all_users = self.size.threads is None or self.size.threads >= self.users
        is_limited = other.workers_are in ("threads", "processes")
        is_same_kind = other.serves == catalog.find_server(self.server).serves
        return is_same_kind and (has_all_users or is_limited)

    def _shared_capacities(self, server: str, size: Size, cores: int) -> dict[Limit, float]:
        """Return the capacities that do not depend on how many processes share the work."""
        found: dict[Limit, float] = {}
        if self.alone_s:
            found[Limit.USERS] = self.users / self.alone_s
        if self.worker_s and catalog.find_server(server).workers_are in ("threads", "processes"):
            found[Limit.WORKERS] = size.total / self.worker_s
        if self.cpu_s:
            found[Limit.CPU] = (cores - MEASURING_CORES) / self.cpu_s
        return found


def _smallest(capacities: dict[Limit, float]) -> Prediction:
    limit = min(capacities, key=lambda name: capacities[name])
    return Prediction(capacities[limit], limit)
