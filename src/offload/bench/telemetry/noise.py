"""Measure the current noise of the machine: the CPU use of other processes, and timer delays."""

from __future__ import annotations

import time
from dataclasses import dataclass

from offload.bench.telemetry import host_counters
from offload.bench.telemetry.counters import CounterSeries

DURATION = 1.0  # s
SLEEP = 0.01  # s requested by each sleep


@dataclass(frozen=True)
class Noise:
    """The noise of the machine, as shares from 0 to 1.

    `others_cpu` is the share of the machine's CPU that other processes used, `steal` the share
    that other guests of the hypervisor used. `pressure` is the share of time in which at least
    one thread waited for a CPU. None means unknown. `timer_late_ms` is the 99th percentile of the
    delay of timers in ms.
    """

    others_cpu: float | None
    steal: float | None
    pressure: float | None
    timer_late_ms: float


def measure() -> Noise:
    """Measure for one second; the caller must run nothing else at the same time."""
    series = CounterSeries()
    late: list[float] = []
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
    )
