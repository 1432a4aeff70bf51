"""Measure the current noise of the machine: the CPU use of other processes, and timer delays."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import psutil

from offload.bench.telemetry import host_counters
from offload.bench.telemetry.counters import CounterSeries
from offload.errors import escaped

DURATION = 1.0  # s
SLEEP = 0.01  # s requested by each sleep
BUSY = 0.05  # cores, from which another process is named; a guess
MOST_NAMED = 3


@dataclass(frozen=True)
class Noise:
    """The noise of the machine, as shares from 0 to 1.

    `others_cpu` is the share of the machine's CPU that other processes used, `steal` the share
    that other guests of the hypervisor used. `pressure` is the share of time in which at least
    one thread waited for a CPU. None means unknown. `timer_late_ms` is the 99th percentile of the
    delay of timers in ms. `busiest` are the other processes with the highest CPU use, as text.
    """

    others_cpu: float | None
    steal: float | None
    pressure: float | None
    timer_late_ms: float
    busiest: tuple[str, ...] = ()


def measure() -> Noise:
    """Measure for one second; the caller must run nothing else at the same time."""
    series = CounterSeries()
    late: list[float] = []
    before = _processes()
    series.add(time.monotonic(), {**host_counters.read(), "own_s": time.process_time()})
    until = time.monotonic() + DURATION
    while (start := time.monotonic()) < until:
        time.sleep(SLEEP)  # the measured operation
        late.append((time.monotonic() - start - SLEEP) * 1000)
    series.add(time.monotonic(), {**host_counters.read(), "own_s": time.process_time()})
    cores = host_counters.cpu_count()
    busy, own = series.increase("busy_s"), series.increase("own_s") or 0.0
    steal, pressure = series.increase("steal_s"), series.increase("pressure_s")
    seconds = series.seconds
    return Noise(
        None if busy is None else round(max(0.0, busy - own) / (seconds * cores), 4),
        None if steal is None else round(steal / (seconds * cores), 4),
        None if pressure is None else round(pressure / seconds, 4),
        round(sorted(late)[int(0.99 * (len(late) - 1))], 3),
        _busiest(before, _processes(), seconds),
    )


def _processes() -> dict[psutil.Process, tuple[str, float]]:
    """Return the name and the CPU time in s of each process that can be read, except this one."""
    found = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        name, times = process.info["name"], process.info["cpu_times"]
        if process.pid != os.getpid() and name and times is not None:
            found[process] = name, times.user + times.system
    return found


def _busiest(
    before: dict[psutil.Process, tuple[str, float]],
    after: dict[psutil.Process, tuple[str, float]],
    seconds: float,
) -> tuple[str, ...]:
    """Return the processes that used most CPU between two readings, the busiest one first."""
    cpu = {
        process: (used_s - before[process][1] if process in before else used_s) / seconds
        for process, (_, used_s) in after.items()
    }
    busy = sorted((each for each in cpu if cpu[each] >= BUSY), key=lambda each: -cpu[each])
    return tuple(
        f"{escaped(after[each][0])} (pid {each.pid}, {cpu[each]:.1f} cores)"
        for each in busy[:MOST_NAMED]
    )
