"""The noise of the machine now: what others take from it, and how late a timer is."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

from offload.bench.telemetry import host_counters
from offload.bench.telemetry.counters import Series

WATCHED = 1.0  # s
TIMER = 0.01  # s that each sleep asks for


@dataclass(frozen=True)
class Noise:
    """Shares from 0 to 1 of the machine's CPU, or of the time; `timer_late_ms` by its p99.

    `others_cpu` went to other processes, `steal` to other guests of the hypervisor; `pressure` is
    the time in which some thread waited for a CPU. None is not known.
    """

    others_cpu: float | None
    steal: float | None
    pressure: float | None
    timer_late_ms: float


def listen() -> Noise:
    """Watch the machine for a second while nothing of ours runs."""
    series = Series()
    late: list[float] = []
    series.add(time.monotonic(), {**host_counters.used(), "own_s": time.process_time()})
    until = time.monotonic() + WATCHED
    while (began := time.monotonic()) < until:
        time.sleep(TIMER)  # this is what is measured
        late.append((time.monotonic() - began - TIMER) * 1000)
    series.add(time.monotonic(), {**host_counters.used(), "own_s": time.process_time()})
    cores = psutil.cpu_count() or 1
    busy, own = series.growth("busy_s"), series.growth("own_s") or 0.0
    steal, pressure = series.growth("steal_s"), series.growth("pressure_s")
    seconds = series.seconds
    return Noise(
        None if busy is None else round(max(0.0, busy - own) / (seconds * cores), 4),
        None if steal is None else round(steal / (seconds * cores), 4),
        None if pressure is None else round(pressure / seconds, 4),
        round(sorted(late)[int(0.99 * (len(late) - 1))], 3),
    )
