"""The rate of workers that share cores: between calls that never queue and calls in step.

lab/advice.rst, The model, has the measurements behind the weights.
"""

from __future__ import annotations

import math

# How much the calls of several workers run in step (see `in_step_rate`), from 0 to 1: one event
# loop passes calls to all workers of a pool; processes of prefork accept connections independently.
IN_STEP, IN_STEP_PREFORK = 0.5, 0.25
IN_STEP_EXPONENT = 4.0  # of the busy share of the cores: idle cores keep short calls apart; a guess
SLICE_S = 0.0025  # s from which calls share cores and the GIL by time slices: half of CPython's
# switch interval, and about a slice of Linux; calls of 1 ms do not share, calls of 4.5 ms do


def shared_rate(
    workers: int,
    cores: float,
    wait_s: float,
    cpu_s: float,
    in_step: float = IN_STEP,
    bursts: float = 1.0,
) -> float:
    """Return the rate in calls/s of workers that share cores and use none while they wait.

    It is the geometric mean of `unqueued_rate` and `in_step_rate`, with the weight `in_step` of the
    latter. The weight is smaller for calls that compute in `bursts` shorter than a time slice,
    because they leave the core one after the other, unless all cores are busy.
    """
    highest = unqueued_rate(workers, cores, wait_s, cpu_s)
    if workers <= cores:
        return highest
    if cpu_s / bursts < SLICE_S:
        in_step *= (highest * cpu_s / cores) ** IN_STEP_EXPONENT
    lowest = in_step_rate(workers, cores, wait_s, cpu_s)
    return math.exp((1 - in_step) * math.log(highest) + in_step * math.log(lowest))


def unqueued_rate(workers: int, cores: float, wait_s: float, cpu_s: float) -> float:
    """Return the rate of calls that never queue for a core before all cores are busy."""
    by_workers = workers / (wait_s + cpu_s)
    return by_workers if cpu_s <= 0 else min(by_workers, cores / cpu_s)


def in_step_rate(workers: int, cores: float, wait_s: float, cpu_s: float) -> float:
    """Return the rate of calls in step: all wait at once, and then share the cores.

    Calls that share a core by time slices end at nearly the same time, and so start again together.
    """
    return workers / (wait_s + workers * cpu_s / cores)
