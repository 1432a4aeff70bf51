"""The order in which set-ups are worth measuring: asymptotic bounds of their capacity.

capacity = min(slots / s, processes / g, cores / c, users / s, x), where s is the time for which a
request occupies a slot, g the time for which it holds the GIL or the event loop, c its CPU time,
and x the rate of what all processes share (Denning and Buzen 1978, The Operational Analysis of
Queueing Network Models). A prior is only used to choose what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from offload.registry import catalog
from offload.studies.advise.choice import RESERVE
from offload.studies.advise.costs import Costs
from offload.studies.advise.evidence import (
    LOOPS,
    POOL,
    THREADS,
    Evidence,
    Question,
    Setup,
    kind_of,
)

MOST_THREADS, MOST_WORKERS, MOST_SLOTS, MOST_PROCESSES = 128, 32, 512, 16
MOST_USERS = 1000  # of a load
MOST_CANDIDATES = 5
WORTH = 0.4  # share of the best prior, below which a set-up is not measured at first
BEYOND = 1.25  # times a bound, from which a measured capacity proves that it was wrong; a guess
NEEDED = 2  # slots for each call that is in progress at the bounds of CPU and GIL: a reserve
SINGLE = {"prefork": "loop", "uvicorn_workers": "uvicorn_httptools"}  # the same with one process


@dataclass(frozen=True)
class Prior:
    """The bounds of the capacity of set-ups for a function or an application, on this machine."""

    costs: Costs
    question: Question

    def capacity(self, setup: Setup) -> float:
        """Return the bound of the capacity in requests/s."""
        return min(self.bounds(setup).values())

    def limit(self, setup: Setup, found: Evidence | None = None) -> str:
        """Return what limits a set-up: the name of its smallest bound.

        With what was `found` of it, the CPU is that which the load tool leaves, and a bound
        that is shared or serial was wrong if the capacity is larger.
        """
        bounds, capacity = self.bounds(setup), 0.0
        if found is not None:
            capacity = found.capacity or 0.0
            if found.cpu_ms:
                left = self.costs.cores * (1 - (found.client_share or 0.0))
                bounds["cpu"] = max(bounds["cpu"], 1000 * left / found.cpu_ms)
        for name in ("shared", "serial"):
            if capacity > BEYOND * bounds.get(name, math.inf):
                del bounds[name]
        return min(bounds, key=lambda each: bounds[each])

    def bounds(self, setup: Setup) -> dict[str, float]:
        """Return the bounds of the capacity by "cpu", "serial", "slots", "users" and "shared"."""
        cost, users = self.costs.of[setup.kind], self.question.users
        bounds = {"cpu": self.costs.cores / cost.cpu_s}
        if cost.serial_s is not None:
            in_front = 1 if setup.kind == POOL else setup.processes
            bounds["serial"] = in_front / cost.serial_s
        if setup.slots is not None:
            bounds["slots"] = setup.slots / cost.slot_s
        if users is not None:
            bounds["users"] = users / cost.slot_s
        if self.costs.shared_rate is not None:
            bounds["shared"] = self.costs.shared_rate
        return bounds

    def users(self, setup: Setup) -> int:
        """Return the users of a closed loop that saturate a set-up: two for each slot.

        For event loops, twice the number of calls that are in progress at the bound of the loop.
        """
        slot_s = self.costs.of[setup.kind].slot_s
        count = 2 * (setup.slots or math.ceil(self.capacity(setup) * slot_s))
        count = min(MOST_USERS, max(8, count))
        return count if self.question.users is None else min(count, self.question.users)

    def memory_mib(self, setup: Setup) -> float:
        """Return the memory that a set-up probably needs: processes, and calls in progress."""
        count = setup.all_processes + (setup.kind == POOL)
        at_once = setup.slots if setup.slots is not None else setup.processes
        return count * self.costs.process_mib + at_once * self.costs.call_mib

    @property
    def limit_mib(self) -> float | None:
        """The memory that a set-up may use: what is required, or what the machine has."""
        known = [each for each in (self.question.memory_mib, self.costs.limit_mib) if each]
        return min(known, default=None)

    def slots(self, setup: Setup) -> int:
        """Return the slots for each process of a set-up: a power of two, if no limit is lower."""
        unlimited = replace(setup, workers=10**6)
        rate = self.capacity(unlimited)
        if self.question.rate is not None:
            rate = min(rate, self.question.rate / RESERVE)
        in_progress = rate * self.costs.of[setup.kind].slot_s
        count = max(1.0, NEEDED * in_progress / setup.processes)
        if self.question.users is not None:
            count = min(count, self.question.users / setup.processes)
        size = int(2 ** round(math.log2(max(1.0, count))))
        if self.question.connections is not None:
            size = min(size, self.question.connections // setup.processes)
        if self.limit_mib is not None:
            one = self.memory_mib(replace(setup, workers=1))
            each_mib = self.memory_mib(replace(setup, workers=2)) - one
            left_mib = self.limit_mib - one
            size = min(size, 1 + int(left_mib / each_mib) if each_mib > 0 else size)
        return max(1, size)

    def candidates(self, servers: Sequence[str]) -> list[Setup]:
        """Return the set-ups to measure first, at most MOST_CANDIDATES, the best prior first.

        `servers` are those that can serve. With a required rate, the cheapest set-ups that may
        carry it are first.
        """
        found = [each for name in servers for each in self._sized(name) if self.is_possible(each)]
        if not found:
            return []
        if carrying := [each for each in found if self._may_carry(each)]:
            return sorted(carrying, key=self.memory_mib)[:MOST_CANDIDATES]
        ranked = sorted(
            found, key=lambda each: (-round(math.log(self.capacity(each)), 1), each.all_processes)
        )
        best = max(map(self.capacity, found))
        worth = [each for each in ranked if self.capacity(each) >= WORTH * best]
        return worth[:MOST_CANDIDATES]

    def candidates_of_each(self, servers: Sequence[str]) -> list[Setup]:
        """Return the best set-up of each server, then others, at most MOST_CANDIDATES."""
        ranked = {name: self.candidates([name]) for name in servers}
        first = [found[0] for found in ranked.values() if found]
        others = [each for found in ranked.values() for each in found[1:]]
        return [*first, *others][:MOST_CANDIDATES]

    def is_possible(self, setup: Setup) -> bool:
        """Whether a set-up has the sizes that the question permits, and works in the probe."""
        question, costs, slots = self.question, self.costs, setup.slots or 0
        has_idle_slots = question.users is not None and slots >= 2 * question.users > 2
        if has_idle_slots or (question.connections is not None and slots > question.connections):
            return False
        if self.limit_mib is not None and self.memory_mib(setup) > self.limit_mib:
            return False
        if setup.kind in costs.fails and (setup.kind == LOOPS or setup.workers != 1):
            return False
        if setup.all_processes > 1 and costs.fails_in_processes:
            return False
        return setup.isolates or not question.isolate

    def _may_carry(self, setup: Setup) -> bool:
        """Whether a required rate is within the bound of a set-up, with its reserve."""
        rate = self.question.rate
        return rate is not None and self.capacity(setup) >= rate / RESERVE

    def neighbours(self, setup: Setup) -> list[Setup]:
        """Return half and twice of either size, the most promising first.

        A smaller size is promising if its bound is the same, a larger one if its bound is larger;
        of several, the one that needs less memory.
        """
        found = [each for each in _around(setup) if self.is_possible(each)]
        if self._may_carry(setup):
            return sorted(filter(self._may_carry, found), key=self.memory_mib)
        own = self.capacity(setup)

        def gain(each: Setup) -> float:
            share = self.capacity(each) / own
            is_smaller = (each.slots or each.processes) < (setup.slots or setup.processes)
            return share if not is_smaller or share > 0.99 else share - 1

        return sorted(found, key=lambda each: (-round(gain(each), 1), self.memory_mib(each)))

    def _sized(self, server: str) -> Iterator[Setup]:
        """Yield the sizes of a server that are worth measuring: one process, and one a core."""
        entry = catalog.find_server(server)
        kind = kind_of(entry)
        if kind == POOL:
            pool = Setup(server, POOL, 1, 1)
            slots = self.slots(pool)
            usual = replace(
                pool, workers=min(MOST_WORKERS, max(math.ceil(self.costs.cores), slots))
            )
            yield usual if self.is_possible(usual) else replace(pool, workers=slots)
        elif kind == LOOPS:
            for count in self._processes(Setup(server, LOOPS)):
                yield Setup(server, LOOPS, count)
        elif entry.workers_are == "processes":
            one = Setup(server, THREADS, 1, 1)
            yield replace(one, processes=min(MOST_PROCESSES, self.slots(one)))
        elif not self.costs.is_awaited:
            for count in self._processes(Setup(server, THREADS, 1, MOST_THREADS)):
                found = Setup(server, THREADS, count, 1)
                most = min(MOST_THREADS, MOST_SLOTS // count)
                yield replace(found, workers=min(most, self.slots(found)))

    def _processes(self, setup: Setup) -> list[int]:
        """Return the numbers of processes that are worth measuring.

        They are one, one for each core, and as many as it takes until a limit of each process, such
        as its pool of connections, is no longer the limit.
        """
        server, cores = setup.server, math.ceil(self.costs.cores)
        if not _has_processes(server):
            return [1]
        found = {1, cores}
        bounds = self.bounds(setup)
        if (serial := bounds.pop("serial", None)) and (
            setup.kind == THREADS or self.costs.is_awaited
        ):
            bounds.pop("slots", None)
            found.add(min(MOST_PROCESSES, max(cores, round(min(bounds.values()) / serial))))
        return sorted(found - {1} if server in SINGLE else found)


def _has_processes(server: str) -> bool:
    entry = catalog.find_server(server)
    return "processes" in entry.settings or entry.workers_are == "processes"


def _with_processes(setup: Setup, count: int) -> Setup | None:
    """Return a set-up with another number of processes; None if its server cannot have it."""
    several = next((name for name, one in SINGLE.items() if one == setup.server), setup.server)
    server = SINGLE.get(several, several) if count == 1 else several
    return replace(setup, server=server, processes=count) if _has_processes(several) else None


def _around(setup: Setup) -> Iterator[Setup]:
    if setup.kind != POOL:
        for processes in (setup.processes * 2, setup.processes // 2):
            is_more = processes > max(MOST_PROCESSES, setup.processes)
            found = _with_processes(setup, processes) if processes and not is_more else None
            if found is not None:
                yield found
    if catalog.find_server(setup.server).workers_are == "threads" and setup.workers is not None:
        most = MOST_THREADS if setup.kind == THREADS else MOST_WORKERS
        for workers in (setup.workers * 2, setup.workers // 2):
            if 1 <= workers <= most:
                yield replace(setup, workers=workers)
