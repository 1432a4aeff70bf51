"""The order in which set-ups are worth measuring: asymptotic bounds of their capacity.

capacity = min(slots / s, processes / (g + serial), cores / (c + o), users / s), where s is the time
for which a call occupies a slot, g the time for which it holds the GIL or the event loop, c its CPU
time, and o and `serial` what the server adds (Denning and Buzen 1978, The Operational Analysis of
Queueing Network Models). A prior is only used to choose what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from offload.bench.advice.inputs import probe as probes
from offload.bench.advice.inputs.probe import Probe
from offload.studies.advise.choice import RESERVE, Question
from offload.studies.advise.evidence import LOOPS, POOL, THREADS, Setup

# CPU time of the server for a request, and the part of it that runs one after the other, in s, at
# the speed of PYTHON_S (typical values, Tornado and gunicorn, Python 3.11). LOAD_S is the tool's.
OVERHEAD_S = {LOOPS: (0.34e-3, 0.30e-3), THREADS: (0.44e-3, 0.35e-3), POOL: (0.55e-3, 0.40e-3)}
LOAD_S = 0.15e-3
PYTHON_S = 0.02  # duration of fixed work in Python on the machine of these values, in s
MOST_THREADS, MOST_WORKERS, MOST_SLOTS = 128, 32, 512
MOST_USERS = 1000  # of a load
MOST_CANDIDATES = 5
WORTH = 0.4  # share of the best prior, below which a set-up is not measured at first
NEEDED = 2  # slots for each call that is in progress at the bounds of CPU and GIL: a reserve


@dataclass(frozen=True)
class Prior:
    """The bounds of the capacity of set-ups for one function, on this machine."""

    probe: Probe
    question: Question

    @property
    def _speed(self) -> float:
        return (self.probe.python_s or PYTHON_S) / PYTHON_S

    def capacity(self, setup: Setup) -> float:
        """Return the bound of the capacity in requests/s."""
        return min(self.bounds(setup).values())

    def limit(self, setup: Setup) -> str:
        """Return what limits a set-up: the name of its smallest bound."""
        bounds = self.bounds(setup)
        return min(bounds, key=lambda each: bounds[each])

    def bounds(self, setup: Setup) -> dict[str, float]:
        """Return the bounds of the capacity by "cpu", "serial", "slots" and "users"."""
        call, probe = self.probe.call, self.probe
        cpu_s, serial_s = (self._speed * each for each in OVERHEAD_S[setup.kind])
        wall_s = max(call.wall_s - call.queued_s, 1e-6)
        bounds = {"cpu": probe.capacity / (call.cpu_s + cpu_s + self._speed * LOAD_S)}
        if setup.kind == LOOPS:
            bounds["serial"] = setup.processes / (probe.on_loop_s + serial_s)
        elif setup.kind == THREADS:
            bounds["serial"] = setup.processes / (call.held_s + serial_s)
        else:
            bounds["serial"] = 1 / serial_s
        if setup.slots is not None:
            bounds["slots"] = setup.slots / (wall_s + cpu_s)
        if self.question.users is not None:
            bounds["users"] = self.question.users / (wall_s + cpu_s)
        return bounds

    def users(self, setup: Setup) -> int:
        """Return the users of a closed loop that saturate a set-up: two for each slot.

        For event loops, twice the number of calls that are in progress at the bound of the loop.
        """
        count = 2 * (setup.slots or math.ceil(self.capacity(setup) * self.probe.call.wall_s))
        count = min(MOST_USERS, max(8, count))
        return count if self.question.users is None else min(count, self.question.users)

    def memory_mib(self, setup: Setup) -> float:
        """Return the memory that a set-up probably needs: processes, and calls in progress."""
        process, call_mib = self.probe.process, self.call_mib
        each_mib = process.imported_mib or 20.0
        count = setup.all_processes + (setup.kind == POOL)
        at_once = setup.slots if setup.slots is not None else setup.processes
        return count * each_mib + at_once * call_mib

    @property
    def call_mib(self) -> float:
        """The memory of one call in progress in MiB; 0 if it is unknown."""
        return max((p.worker_mib or 0.0 for p in self.probe.of_kind(probes.THREADS)), default=0.0)

    def slots(self, setup: Setup) -> int:
        """Return the slots for each process of a set-up: a power of two, if no limit is lower."""
        unlimited = replace(setup, workers=10**6)
        rate = self.capacity(unlimited)
        if self.question.rate is not None:
            rate = min(rate, self.question.rate / RESERVE)
        in_progress = rate * self.probe.call.wall_s
        count = max(1.0, NEEDED * in_progress / setup.processes)
        if self.question.users is not None:
            count = min(count, self.question.users / setup.processes)
        size = int(2 ** round(math.log2(max(1.0, count))))
        if self.question.connections is not None:
            size = min(size, self.question.connections // setup.processes)
        if self.question.memory_mib is not None:
            one = self.memory_mib(replace(setup, workers=1))
            each_mib = self.memory_mib(replace(setup, workers=2)) - one
            left_mib = self.question.memory_mib - one
            size = min(size, 1 + int(left_mib / each_mib) if each_mib > 0 else size)
        return max(1, size)

    def candidates(self, servers: Sequence[str]) -> list[Setup]:
        """Return the set-ups to measure first, at most MOST_CANDIDATES, the best prior first.

        `servers` are those that can serve the function. Each kind has one, and one of a single
        process. With a required rate, the cheapest ones that may carry it are first.
        """
        found = [each for each in self._sized(servers) if self.is_possible(each)]
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

    def is_possible(self, setup: Setup) -> bool:
        """Whether a set-up has the sizes that the question permits, and works in the probe."""
        question, probe, slots = self.question, self.probe, setup.slots or 0
        has_idle_slots = question.users is not None and slots >= 2 * question.users > 2
        if has_idle_slots or (question.connections is not None and slots > question.connections):
            return False
        if question.memory_mib is not None and self.memory_mib(setup) > question.memory_mib:
            return False
        fails = (
            (setup.kind == THREADS and setup.workers != 1 and probe.is_unsafe_in_threads)
            or (setup.kind == LOOPS and probe.fails_on_loop)
            or (setup.all_processes > 1 and probe.fails_in_processes)
        )
        return not fails and (not question.isolate or setup.kind == POOL)

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

    def _sized(self, servers: Sequence[str]) -> Iterator[Setup]:
        cores = math.ceil(self.probe.capacity)
        for processes in sorted({1, cores}):
            loop = "loop" if processes == 1 else "prefork"
            if loop in servers:
                yield Setup(loop, LOOPS, processes)
        for server in ("threads", "gunicorn_gthread"):
            if server in servers and not self.probe.is_coroutine:
                for processes in sorted({1, cores}):
                    yield self._with_threads(Setup(server, THREADS, processes, 1))
        for server in ("processes", "pipes"):
            if server in servers:
                pool = Setup(server, POOL, 1, 1)
                yield replace(pool, workers=min(MOST_WORKERS, max(cores, self.slots(pool))))

    def _with_threads(self, setup: Setup) -> Setup:
        most = min(MOST_THREADS, MOST_SLOTS // setup.processes)
        return replace(setup, workers=min(most, self.slots(setup)))


def _around(setup: Setup) -> Iterator[Setup]:
    if setup.kind in (LOOPS, THREADS):
        for processes in (setup.processes * 2, setup.processes // 2):
            if processes:
                server = setup.server
                if setup.kind == LOOPS:
                    server = "loop" if processes == 1 else "prefork"
                yield replace(setup, server=server, processes=processes)
    if setup.workers is not None:
        most = MOST_THREADS if setup.kind == THREADS else MOST_WORKERS
        for workers in (setup.workers * 2, setup.workers // 2):
            if 1 <= workers <= most:
                yield replace(setup, workers=workers)
