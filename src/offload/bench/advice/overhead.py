"""The overhead of each strategy on this machine: what a request costs besides its task.

It is measured with four tasks. A task that does nothing saturates the server: workers and event
loop never sleep, and each wake-up passes several requests. A task that waits lets its worker sleep
in each request, so each request has wake-ups of its own. A task that computes displaces the
server's code and data from the caches of the CPU, so the server is slower. A task that returns 1 MB
shows the cost of each byte of a response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from offload import cores
from offload.bench.advice import strategies
from offload.bench.advice.strategies import STRATEGIES
from offload.bench.analysis import disturbance, machine_speed
from offload.bench.experiments.block import MANY_ROUNDS, measure_round
from offload.bench.planning import plan as plans
from offload.bench.records import lines
from offload.bench.records.record import WINDOW, Record
from offload.bench.records.run_records import RunRecords
from offload.bench.trial import builder
from offload.errors import RunError
from offload.suites import Case

SHORTEST, LONGEST = 1e-9, 60.0  # limits of a valid figure in s
# Tasks that do nothing, wait for 2 ms, compute for about 2 ms, and return 1 MB
IDLE, WAITS = "noop_sync", "sleep_shortest_sync"
COMPUTES, SENDS = "offload.corpus.data:json_import", "noop_megabyte_sync"
USERS = 25
# Workers that saturate their server although each waits. More workers change the overhead
# of pools little. Each idle process of prefork wakes up for each connection, so prefork has as many
# processes as for a function that waits.
SLEEPERS = {"threads": 8, "processes": 8, "pipes": 8, "prefork": USERS}
WAIT_S = 0.002  # of a call of WAITS
COMPUTE_S = 0.002  # CPU time of a call, from which it displaces the server's code; a guess
WAITING = 0.8  # share of the workers that wait, above which they limit the rate; a guess


@dataclass(frozen=True)
class Overhead:
    """The overhead of one request of a task that does nothing, and of one that `waiting` describes.

    `serial_s` is the time for which it occupies the server's event loop: 1 / rate of a saturated
    server. `cpu_s` is the CPU time of the server and of the load tool, which shares the machine.
    `waiting` are these times for a task that waits; None if they are unknown, and for the loop,
    which has no workers. `computing` are the additional times for a task that computes, `megabyte`
    those for each MB of a response; None if they are unknown. `python_s` is the machine's speed
    during the measurement (see `machine_speed`); None if it is unknown, and in each of the parts.
    """

    serial_s: float
    cpu_s: float
    waiting: Overhead | None = None
    computing: Overhead | None = None
    megabyte: Overhead | None = None
    python_s: float | None = None

    def of_call(self, wait_s: float, cpu_s: float, body_bytes: int) -> Overhead:
        """Return the overhead of a call that waits and computes, and returns `body_bytes`.

        If it waits for longer than an iteration of the event loop, the worker sleeps. Meanwhile
        others use its caches, as they do if the call computes.
        """
        found = Overhead(self.serial_s, self.cpu_s)
        if self.computing is not None:
            found = found.plus(self.computing.scaled(min(1.0, cpu_s / COMPUTE_S)))
        if self.waiting is not None and wait_s > self.serial_s:
            serial_s = max(found.serial_s, self.waiting.serial_s)
            found = Overhead(serial_s, max(found.cpu_s, self.waiting.cpu_s))
        if self.megabyte is not None:
            found = found.plus(self.megabyte.scaled(body_bytes / 1e6))
        return found

    def plus(self, other: Overhead) -> Overhead:
        """Return the sum of two overheads of one request."""
        return Overhead(self.serial_s + other.serial_s, self.cpu_s + other.cpu_s)

    def at(self, python_s: float | None) -> Overhead:
        """Return the overhead while the machine has another speed, if both speeds are known."""
        if python_s is None or self.python_s is None:
            return self
        return self.scaled(python_s / self.python_s)

    def scaled(self, factor: float) -> Overhead:
        """Return the overhead on a machine that is slower by a factor."""
        parts = (self.waiting, self.computing, self.megabyte)
        waiting, computing, megabyte = (
            None if part is None else part.scaled(factor) for part in parts
        )
        return Overhead(self.serial_s * factor, self.cpu_s * factor, waiting, computing, megabyte)

    @property
    def times(self) -> list[float]:
        """All times in s."""
        parts = (self.waiting, self.computing, self.megabyte)
        times = [part.times for part in parts if part is not None]
        return [self.serial_s, self.cpu_s, *(each for part in times for each in part)]


@dataclass(frozen=True)
class OverheadRound:
    """The overhead of each strategy, measured in one round.

    `warning` is the reason why the figures are incomplete or uncertain; None if they are neither.
    """

    overheads: Mapping[str, Overhead]
    warning: str | None = None


def read(values: Mapping[str, Any]) -> dict[str, Overhead]:
    """Return the overheads of all strategies from their JSON; raise ValueError.

    Parts of them are unknown if they were saved by an older version.
    """
    found = {name: lines.built(Overhead, parts, "overhead") for name, parts in values.items()}
    if missing := {*STRATEGIES} - found.keys():
        raise ValueError(f"the overhead of {min(missing)} is missing")
    for name, each in found.items():
        speed = [] if each.python_s is None else [each.python_s]
        if not all(0 < time_s < LONGEST for time_s in [*each.times, *speed]):
            raise ValueError(f"the overhead of {name} is not a time from 0 to {LONGEST:.0f} s")
    return found


def measure() -> OverheadRound:
    """Measure all strategies in one round of a block, in about 30 s.

    Raise RunError if the overhead of a task that does nothing is unknown.
    """
    count = cores.available()
    cases = [_case(name, task, count) for task in (IDLE, COMPUTES, SENDS) for name in STRATEGIES]
    cases += [_case(name, WAITS, workers) for name, workers in SLEEPERS.items()]
    block = dict(enumerate(cases))
    seed = plans.new_seed()
    trial = builder.new_trial("overhead", kind=WINDOW, block=0, round=1, seed=seed)
    measured = measure_round(block, trial, None, _quietly, with_gil=False, design=MANY_ROUNDS)
    records = RunRecords(measured)
    windows = {
        (case.server, case.task): records.at(place).windows() for place, case in block.items()
    }
    found, problem = _of_windows(windows, count)
    if problem is not None:
        warning = f"the overhead of calls that wait or compute is unknown ({problem})"
        return OverheadRound(found, warning)
    disturbed = disturbance.between([record for each in windows.values() for record in each], [])
    if disturbed is not None:
        return OverheadRound(found, f"the overhead is not certain: {disturbed.message}")
    return OverheadRound(found)


def mean(rounds: Sequence[Mapping[str, Overhead]]) -> dict[str, Overhead]:
    """Return the mean overhead of each strategy over several rounds, at their mean speed."""
    return {name: _mean([each[name] for each in rounds]) for name in STRATEGIES}


def _mean(found: Sequence[Overhead]) -> Overhead:
    speeds = [each.python_s for each in found if each.python_s is not None]
    python_s = fmean(speeds) if len(speeds) == len(found) else None
    same_speed = [each.at(python_s) for each in found]
    return Overhead(
        fmean(each.serial_s for each in same_speed),
        fmean(each.cpu_s for each in same_speed),
        _mean_part(each.waiting for each in same_speed),
        _mean_part(each.computing for each in same_speed),
        _mean_part(each.megabyte for each in same_speed),
        python_s,
    )


def _mean_part(parts: Iterable[Overhead | None]) -> Overhead | None:
    """Return the mean of one part of several overheads; None if one of them is unknown."""
    given = [*parts]
    known = [part for part in given if part is not None]
    return _mean(known) if len(known) == len(given) else None


def _of_windows(
    windows: Mapping[tuple[str, str], list[Record]], count: int
) -> tuple[dict[str, Overhead], str | None]:
    """Return the overheads from the windows of each strategy and task, and a problem.

    `count` is the number of processes of prefork. Strategies are compared by these figures, so if
    the figures of a task that waits are unknown for one strategy, no strategy has them.
    """
    loops = {name: count if name == "prefork" else 1 for name in STRATEGIES}
    python_s = machine_speed.mean_python_s(r for own in windows.values() for r in own)
    idle = {}
    for name in STRATEGIES:
        interval_s, cpu_s = _times(name, windows[name, IDLE])
        idle[name] = Overhead(loops[name] * interval_s, cpu_s, python_s=python_s)
    try:
        waits = {name: _times(name, windows[name, WAITS]) for name in SLEEPERS}
        computes = {name: _beside_task_s(name, windows[name, COMPUTES]) for name in STRATEGIES}
        sends = {name: _times(name, windows[name, SENDS]) for name in STRATEGIES}
    except RunError as error:
        return idle, str(error)
    found = {}
    for name, own in idle.items():
        waiting = _waiting(name, own, *waits[name]) if name in waits else None
        more_s = max(SHORTEST, computes[name] - own.cpu_s)
        computing = Overhead(own.serial_s * more_s / own.cpu_s, more_s)
        interval_s, cpu_s = sends[name]
        serial_s = max(SHORTEST, loops[name] * interval_s - own.serial_s)
        megabyte = Overhead(serial_s, max(SHORTEST, cpu_s - own.cpu_s))
        found[name] = replace(own, waiting=waiting, computing=computing, megabyte=megabyte)
    return found, None


def _waiting(strategy: str, idle: Overhead, interval_s: float, cpu_s: float) -> Overhead:
    """Return the overhead of a task that waits, from the time between two responses.

    That is the time on the event loop, unless the workers limit the rate. The loops of prefork wait
    with the task, so their own time is unknown.
    """
    are_workers_busy = interval_s * SLEEPERS[strategy] * WAITING < WAIT_S
    if strategy == "prefork" or are_workers_busy:
        return Overhead(idle.serial_s, cpu_s)
    return Overhead(interval_s, cpu_s)


def is_complete(found: Mapping[str, Overhead]) -> bool:
    """Whether every part of the overheads is known."""
    has_waiting = all(found[name].waiting is not None for name in SLEEPERS)
    parts = [part for each in found.values() for part in (each.computing, each.megabyte)]
    return has_waiting and all([*parts, *(each.python_s for each in found.values())])


def _quietly(*_: object) -> None:
    """Report nothing."""


def _case(strategy: str, task: str, workers: int) -> Case:
    settings = strategies.settings((strategy, workers))
    # As many users as advice has for a task that computes: more users mean more overhead.
    few = strategies.saturating_users(USERS, 2 * workers, is_coroutine=False)
    return Case(strategy, task, few if task == COMPUTES else USERS, settings=settings)


def _times(strategy: str, windows: list[Record]) -> tuple[float, float]:
    """Return the time between two responses and the CPU time of a request, in s.

    Raise RunError if one of them is unknown.
    """
    intervals, cpu = [], []
    for record in windows:
        rate, done = record.result.rate, record.result.completed
        used_s = _cpu_s(record)
        if record.problem is None and rate and done and used_s:
            intervals.append(1 / rate)
            cpu.append(used_s / done)
    if not intervals:
        problem = next((record.problem for record in windows if record.problem), None)
        reason = "its rate or CPU time is unknown" if problem is None else str(problem)
        raise RunError(f"{strategy}: {reason}")
    return fmean(intervals), fmean(cpu)


def _beside_task_s(strategy: str, windows: list[Record]) -> float:
    """Return the CPU time of a request besides that of its task, in s; raise RunError."""
    _, cpu_s = _times(strategy, windows)
    known = [record.tasks.cpu_s for record in windows if record.tasks.cpu_s is not None]
    if not known:
        raise RunError(f"{strategy}: the CPU time of its task is unknown")
    return cpu_s - fmean(known)


def _cpu_s(record: Record) -> float | None:
    """Return the CPU time of the server and of the load tool in s; None if it is unknown."""
    server_s, tool_s = record.resources.cpu_s, record.load.cpu_s
    return None if server_s is None or tool_s is None else server_s + tool_s
