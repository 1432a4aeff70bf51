"""Measure the overhead of each strategy on this machine, in one round of a block."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from offload import cores
from offload.bench.advice import strategies
from offload.bench.advice.inputs.overhead import MEASURING_CORES, WAITING_WORKERS, Overhead
from offload.bench.advice.strategies import STRATEGIES
from offload.bench.analysis import disturbance, machine_speed
from offload.bench.experiments.block import MANY_ROUNDS, measure_round
from offload.bench.planning import plan as plans
from offload.bench.records.record import WINDOW, Record
from offload.bench.records.run_records import RunRecords
from offload.bench.trial import builder
from offload.errors import RunError
from offload.suites import Case

DURATION_S = 30.0  # of a round
SHORTEST = 1e-9  # of a valid figure in s
# Tasks that do nothing, wait for 2 ms, and return 1 MB
NOOP, WAITS, SENDS = "noop_sync", "sleep_shortest_sync", "noop_megabyte_sync"
# Tasks that compute: for about 2 ms, and in threads for 1 ms without the GIL, because the GIL would
# leave cores idle itself
TASKS = Path(__file__).with_name("computing_tasks.py").resolve()
COMPUTES, COMPUTES_WITHOUT_GIL = f"{TASKS}:json_import", f"{TASKS}:native"
USERS = 25
WAIT_S = 0.002  # of a call of WAITS
WORKERS_BUSY = 0.8  # busy share of the workers, above which they limit the rate; a guess
LOOP_BUSY = 0.6  # busy share of the event loop, above which it limits the rate; a guess


@dataclass(frozen=True)
class Overheads:
    """The overhead of each strategy.

    `warning` is the reason why the figures are incomplete or uncertain; None if they are neither.
    `are_typical` is True if they were not measured on this machine.
    """

    overheads: Mapping[str, Overhead]
    warning: str | None = None
    are_typical: bool = False


class OverheadTimeout(RunError):
    """The overheads could not be measured in time."""


def measure(ends: float) -> Overheads:
    """Measure all strategies in one round of a block, in about DURATION_S.

    Raise OverheadTimeout at the first phase that starts after `ends`, a time of `time.monotonic`,
    and RunError if the overhead of a task that does nothing is unknown.
    """
    count = cores.available()
    cases = [_case(name, task, count) for task in (NOOP, SENDS) for name in STRATEGIES]
    cases += [_case(name, _computing_task(name), count) for name in STRATEGIES]
    cases += [_case(name, WAITS, workers) for name, workers in WAITING_WORKERS.items()]
    block = dict(enumerate(cases))
    seed = plans.new_seed()
    trial = builder.new_trial("overhead", kind=WINDOW, block=0, round=1, seed=seed)
    limit_s = ends - time.monotonic()

    def raise_if_late(*_: object) -> None:
        if time.monotonic() > ends:
            raise OverheadTimeout(f"the strategies' overhead took more than {limit_s:.0f} s")

    measured = measure_round(block, trial, None, raise_if_late, with_gil=False, design=MANY_ROUNDS)
    records = RunRecords(measured)
    windows = {
        (case.server, case.task): records.at(place).windows() for place, case in block.items()
    }
    found, problem = _of_windows(windows, count)
    if problem is not None:
        warning = f"only the overhead of calls that do nothing is known ({problem})"
        return Overheads(found, warning)
    disturbed = disturbance.between([record for each in windows.values() for record in each], [])
    if disturbed is not None:
        return Overheads(found, f"the overhead is not certain: {disturbed.message}")
    return Overheads(found)


def _of_windows(
    windows: Mapping[tuple[str, str], list[Record]], count: int
) -> tuple[dict[str, Overhead], str | None]:
    """Return the overheads from the windows of each strategy and task, and a problem or None.

    `count` is the number of cores, and of processes of prefork. Strategies are compared by these
    figures. So if a figure of a task is unknown for one strategy, the problem is the reason, and no
    strategy has more than the figures of the task that does nothing. Raise RunError if those are
    unknown.
    """
    loops = {name: count if name == "prefork" else 1 for name in STRATEGIES}
    python_s = machine_speed.mean_python_s(r for own in windows.values() for r in own)
    noop = {}
    for name in STRATEGIES:
        interval_s, cpu_s = _times(name, windows[name, NOOP])
        noop[name] = Overhead(loops[name] * interval_s, cpu_s, python_s=python_s)
    try:
        waits = {name: _times(name, windows[name, WAITS]) for name in WAITING_WORKERS}
        computing = {name: windows[name, _computing_task(name)] for name in STRATEGIES}
        computes = {name: _cpu_s_without_task(name, own) for name, own in computing.items()}
        idle_s = {
            name: _idle_s(name, computing[name], count, noop[name].serial_s)
            for name in WAITING_WORKERS
        }
        sends = {name: _times(name, windows[name, SENDS]) for name in STRATEGIES}
    except RunError as error:
        return noop, str(error)
    found = {}
    for name, own in noop.items():
        waiting = _waiting(name, own, *waits[name]) if name in waits else None
        more_s = max(SHORTEST, computes[name] - own.cpu_s)
        more = Overhead(own.serial_s * more_s / own.cpu_s, more_s)
        interval_s, cpu_s = sends[name]
        serial_s = max(SHORTEST, loops[name] * interval_s - own.serial_s)
        megabyte = Overhead(serial_s, max(SHORTEST, cpu_s - own.cpu_s))
        found[name] = Overhead(
            own.serial_s, own.cpu_s, waiting, more, megabyte, idle_s.get(name), python_s
        )
    return found, None


def _waiting(strategy: str, noop: Overhead, interval_s: float, cpu_s: float) -> Overhead:
    """Return the overhead of a task that waits, from the time between two responses.

    That is the time on the event loop, unless the workers limit the rate. The loops of prefork wait
    with the task, so their own time is unknown.
    """
    are_workers_busy = interval_s * WAITING_WORKERS[strategy] * WORKERS_BUSY < WAIT_S
    if strategy == "prefork" or are_workers_busy:
        return Overhead(noop.serial_s, cpu_s)
    return Overhead(interval_s, cpu_s)


def _computing_task(strategy: str) -> str:
    return COMPUTES_WITHOUT_GIL if strategy == "threads" else COMPUTES


def _idle_s(strategy: str, windows: list[Record], count: int, serial_s: float) -> float:
    """Return the time for which one of `count` cores is idle per request, in s; raise RunError.

    `serial_s` is the time for which a request occupies the event loop. If many cores saturate this
    loop, other cores are idle because of it. The model knows this limit, so they do not count. The
    loops of prefork run the task themselves.
    """
    interval_s, cpu_s = _times(strategy, windows)
    if strategy != "prefork" and serial_s > LOOP_BUSY * interval_s:
        return SHORTEST
    return max(SHORTEST, (count - MEASURING_CORES) * interval_s - cpu_s)


def _case(strategy: str, task: str, workers: int) -> Case:
    settings = strategies.settings((strategy, workers))
    # More users increase the overhead. So a task that computes has as many users as in advice,
    # whose largest candidate has twice the workers; and USERS_PER_WORKER, so that none is idle.
    computing_users = strategies.saturating_users(USERS, 2 * workers, is_coroutine=False)
    computing_users = max(computing_users, strategies.USERS_PER_WORKER * workers)
    users = computing_users if task == _computing_task(strategy) else USERS
    return Case(strategy, task, users, settings=settings)


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


def _cpu_s_without_task(strategy: str, windows: list[Record]) -> float:
    """Return the CPU time of a request in s, without that of its task; raise RunError."""
    _, cpu_s = _times(strategy, windows)
    valid = [record.tasks.cpu_s for record in windows if record.problem is None]
    known = [each_s for each_s in valid if each_s is not None]
    if not known:
        raise RunError(f"{strategy}: the CPU time of its task is unknown")
    return cpu_s - fmean(known)


def _cpu_s(record: Record) -> float | None:
    """Return the CPU time of the server and of the load tool in s; None if it is unknown."""
    server_s, tool_s = record.resources.cpu_s, record.load.cpu_s
    return None if server_s is None or tool_s is None else server_s + tool_s
