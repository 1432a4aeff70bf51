"""The overhead of each strategy on this machine: what a request costs besides its task."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from offload import cores, files
from offload.bench.advice import strategies
from offload.bench.advice.strategies import STRATEGIES
from offload.bench.experiments.block import measure_round
from offload.bench.records.record import WINDOW, Record
from offload.bench.records.run_records import RunRecords
from offload.bench.telemetry import machine_speed
from offload.bench.trial import builder
from offload.errors import RunError
from offload.registry import places
from offload.suites import Case

LASTS = 7 * 24 * 3600.0  # s until it is measured again
LONGEST = 60.0  # upper limit of a valid figure in s
TASK = "noop_sync"
USERS = 25


@dataclass(frozen=True)
class Overhead:
    """The overhead of one request of a task that does nothing.

    `serial_s` is the time for which it occupies the server's event loop: 1 / rate of a saturated
    server. `cpu_s` is the CPU time of the server and of the load tool, which shares the machine.
    """

    serial_s: float
    cpu_s: float


def load() -> dict[str, Overhead] | None:
    """Return the saved overheads of this machine by strategy; None if missing or outdated.

    They are corrected for the change of the machine's speed since they were measured.
    """
    try:
        values = json.loads(_file().read_bytes())
        if values["machine"] != _machine() or not 0 <= time.time() - values["utc"] <= LASTS:
            return None
        found = {name: Overhead(**parts) for name, parts in values["overheads"].items()}
        then = float(values["python_s"])
        times = [time_s for each in found.values() for time_s in (each.serial_s, each.cpu_s)]
        is_valid = all(0 < time_s < LONGEST for time_s in [then, *times])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if not is_valid or not {*STRATEGIES} <= found.keys():
        return None
    slower = machine_speed.measure().python_s / then
    return {name: Overhead(o.serial_s * slower, o.cpu_s * slower) for name, o in found.items()}


def measure() -> dict[str, Overhead]:
    """Measure the overheads in one round of about 10 s, and save them for this machine."""
    count = cores.available()
    cases = {
        place: Case(name, TASK, USERS, settings=strategies.settings((name, count)))
        for place, name in enumerate(STRATEGIES)
    }
    trial = builder.new_trial("overhead", kind=WINDOW, block=0, round=1, seed=0)
    records = RunRecords(measure_round(cases, trial, None, lambda *_: None, with_gil=False))
    found = {
        case.server: _of_windows(case, records.at(place).windows(), count)
        for place, case in cases.items()
    }
    _save(found)
    return found


def _of_windows(case: Case, windows: list[Record], count: int) -> Overhead:
    rates = [record.result.rate for record in windows if record.result.rate]
    cpu = [
        ((record.resources.cpu_s or 0.0) + (record.load.cpu_s or 0.0)) / record.result.completed
        for record in windows
        if record.result.completed
    ]
    if not rates or not cpu:
        problem = next((record.problem for record in windows if record.problem), "no response")
        raise RunError(f"{case.name}: {problem}")
    processes = count if case.server == "prefork" else 1
    return Overhead(processes * len(rates) / sum(rates), sum(cpu) / len(cpu))


def _machine() -> list[object]:
    """Return the properties of the machine, besides its speed, that affect the figures."""
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
