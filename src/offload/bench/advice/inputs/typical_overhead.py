"""Typical overheads of the strategies: they replace unknown ones, and correct uncertain parts.

As multiples of the time of fixed work in Python, the overheads of a task that does nothing differ
by 8 to 15 % between machines (standard deviation), although the speeds of these machines differ by
a factor of 3. So a prediction is possible before the overheads of a machine are measured.

The additional time of a task that computes, and the time for which cores are idle, are small
differences of large times. In one round they have errors of 100 % and 40 %, so that the first
answers on a machine had other candidates than the later ones. But relative to the overhead of a
task that does nothing, they hardly differ between days.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from offload.bench.advice.inputs.overhead import Overhead

TYPICAL_ROUNDS = 3  # measured rounds that have the same weight as the typical values; a guess
PYTHON_S = 0.02  # duration of fixed work in Python on the machine of the typical values, in s


def _typical(
    serial_us: float,
    cpu_us: float,
    computing: tuple[float, float],
    megabyte: tuple[float, float],
    waiting: tuple[float, float] | None = None,
    idle_us: float | None = None,
) -> Overhead:
    """Return an overhead from its times in microseconds; pairs are serial and CPU time."""

    def pair(times_us: tuple[float, float]) -> Overhead:
        return Overhead(times_us[0] / 1e6, times_us[1] / 1e6)

    return Overhead(
        *(serial_us / 1e6, cpu_us / 1e6),
        None if waiting is None else pair(waiting),
        pair(computing),
        pair(megabyte),
        None if idle_us is None else idle_us / 1e6,
        PYTHON_S,
    )


# Medians of 12 to 15 sets of one to three rounds, Tornado, 2 cores, Python 3.11, 2026-11-24 to
# 2026-11-27; lab/advice.rst has the command that repeats it
TYPICAL = {
    "loop": _typical(261, 334, (57, 73), (1520, 2050)),
    "threads": _typical(354, 442, (18, 22), (967, 1440), (462, 575), 230),
    "processes": _typical(528, 674, (128, 142), (2370, 3300), (578, 715), 317),
    "pipes": _typical(272, 366, (179, 245), (583, 1050), (289, 543), 443),
    "prefork": _typical(397, 356, (36, 32), (1910, 1770), (397, 794), 274),
}


def weight_with_typical(found: Mapping[str, Overhead], rounds: int) -> dict[str, Overhead]:
    """Return overheads, measured in some `rounds`, with uncertain parts weighted with typical ones.

    Unknown parts stay unknown.
    """
    return {name: _weighted(each, TYPICAL[name], rounds) for name, each in found.items()}


def _weighted(found: Overhead, typical: Overhead, rounds: int) -> Overhead:
    same_speed = typical.scaled(found.cpu_s / typical.cpu_s)

    def mean_s(measured_s: float, typical_s: float) -> float:
        return (rounds * measured_s + TYPICAL_ROUNDS * typical_s) / (rounds + TYPICAL_ROUNDS)

    computing, idle_s = found.computing, found.idle_s
    if computing is not None and same_speed.computing is not None:
        computing = replace(
            computing,
            serial_s=mean_s(computing.serial_s, same_speed.computing.serial_s),
            cpu_s=mean_s(computing.cpu_s, same_speed.computing.cpu_s),
        )
    if idle_s is not None and same_speed.idle_s is not None:
        idle_s = mean_s(idle_s, same_speed.idle_s)
    return replace(found, computing=computing, idle_s=idle_s)
