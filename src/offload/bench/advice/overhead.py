"""The overhead of each strategy on this machine: what a request costs besides its task.

It is measured twice. Saturated by a task that does nothing, workers and event loop never sleep, and
each wake-up passes several requests. A worker whose task waits sleeps in each request, so that each
request has wake-ups of its own.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from offload import cores, files
from offload.bench.advice import strategies
from offload.bench.advice.strategies import STRATEGIES
from offload.bench.experiments.block import MANY_ROUNDS, measure_round
from offload.bench.records import lines
from offload.bench.records.record import WINDOW, Record
from offload.bench.records.run_records import RunRecords
from offload.bench.telemetry import machine_speed
from offload.bench.trial import builder
from offload.errors import RunError
from offload.registry import places
from offload.suites import Case

LASTS = 7 * 24 * 3600.0  # s until it is measured again
LONGEST = 60.0  # s of a valid figure
IDLE, WAITS = "noop_sync", "sleep_shortest_sync"  # tasks that do nothing, and wait for 2 ms
USERS = 25
# Workers that saturate their server, although each waits. More of them change the overhead of pools
# little. Each process of prefork that waits for a connection wakes up for each of them: so as many
# as a function that waits would have.
SLEEPERS = {"threads": 8, "processes": 8, "pipes": 8, "prefork": USERS}


@dataclass(frozen=True)
class Overhead:
    """The overhead of one request of a task that does nothing, and of one that `waiting` describes.

    `serial_s` is the time for which it occupies the server's event loop: 1 / rate of a saturated
    server. `cpu_s` is the CPU time of the server and of the load tool, which shares the machine.
    `waiting` are these times for a task that waits; None for the loop, which has no workers.
    """

    serial_s: float
    cpu_s: float
    waiting: Overhead | None = None

    def of_call(self, wait_s: float) -> Overhead:
        """Return the overhead of a call that waits for `wait_s`.

        If that is longer than a turn of the event loop, the worker sleeps.
        """
        return self if self.waiting is None or wait_s <= self.serial_s else self.waiting

    def scaled(self, factor: float) -> Overhead:
        """Return the overhead on a machine that is slower by a factor."""
        waiting = None if self.waiting is None else self.waiting.scaled(factor)
        return Overhead(self.serial_s * factor, self.cpu_s * factor, waiting)

    @property
    def times(self) -> list[float]:
        """All times in s."""
        return [self.serial_s, self.cpu_s, *(self.waiting.times if self.waiting else ())]


def load() -> dict[str, Overhead] | None:
    """Return the overheads measured on this machine lately, by strategy; None if there are none.

    They are corrected by the speed of the machine then and now.
    """
    try:
        values = json.loads(_file().read_bytes())
        if values["machine"] != _machine() or not 0 <= time.time() - values["utc"] <= LASTS:
            return None
        found = read(values["overheads"])
        then = float(values["python_s"])
        times = [time_s for each in found.values() for time_s in each.times]
        is_valid = all(0 < time_s < LONGEST for time_s in [then, *times])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    is_complete = {*STRATEGIES} <= found.keys() and all(found[name].waiting for name in SLEEPERS)
    if not is_valid or not is_complete:
        return None
    slower = machine_speed.measure().python_s / then
    return {name: each.scaled(slower) for name, each in found.items()}


def read(values: Mapping[str, Any]) -> dict[str, Overhead]:
    """Return overheads by strategy from their JSON; raise ValueError."""
    return {name: lines.built(Overhead, parts, "overhead") for name, parts in values.items()}


def measure() -> dict[str, Overhead]:
    """Measure all strategies in one round of a block, some 15 s; keep them for this machine."""
    count = cores.available()
    cases = [_case(name, IDLE, count) for name in STRATEGIES]
    cases += [_case(name, WAITS, workers) for name, workers in SLEEPERS.items()]
    block = dict(enumerate(cases))
    trial = builder.new_trial("overhead", kind=WINDOW, block=0, round=1, seed=0)
    found = measure_round(block, trial, None, _quietly, with_gil=False, design=MANY_ROUNDS)
    records = RunRecords(found)
    times = {
        (case.server, case.task): _times(case, records.at(place).windows())
        for place, case in block.items()
    }
    overheads = {}
    for name in STRATEGIES:
        loops = count if name == "prefork" else 1
        interval_s, cpu_s = times[name, IDLE]
        idle = Overhead(loops * interval_s, cpu_s)
        if (name, WAITS) in times:
            interval_s, cpu_s = times[name, WAITS]
            # The loops of prefork wait with the task, so that their own time is not known.
            serial_s = idle.serial_s if name == "prefork" else interval_s
            idle = replace(idle, waiting=Overhead(serial_s, cpu_s))
        overheads[name] = idle
    _save(overheads)
    return overheads


def _quietly(*_: object) -> None:
    """Report nothing."""


def _case(strategy: str, task: str, workers: int) -> Case:
    return Case(strategy, task, USERS, settings=strategies.settings((strategy, workers)))


def _times(case: Case, windows: list[Record]) -> tuple[float, float]:
    """Return the time between two responses and the CPU time of a request, in s."""
    rates = [record.result.rate for record in windows if record.result.rate]
    cpu = [
        ((record.resources.cpu_s or 0.0) + (record.load.cpu_s or 0.0)) / record.result.completed
        for record in windows
        if record.result.completed
    ]
    if not rates or not cpu:
        problem = next((record.problem for record in windows if record.problem), "no response")
        raise RunError(f"{case.name}: {problem}")
    return len(rates) / sum(rates), sum(cpu) / len(cpu)


def _machine() -> list[object]:
    """What the figures depend on besides the speed."""
    return [platform.node(), os.cpu_count(), cores.available(), sys.version]


def _file() -> Path:
    return places.cache() / "overheads.json"


def _save(found: Mapping[str, Overhead]) -> None:
    values = {
        "machine": _machine(),
        "utc": time.time(),
        "python_s": machine_speed.measure().python_s,
        "overheads": {name: asdict(each) for name, each in found.items()},
    }
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, json.dumps(values, indent=1).encode() + b"\n")
    except OSError:  # a cache only: the next advice measures them again
        return
