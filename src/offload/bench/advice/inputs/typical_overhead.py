"""Typical values of uncertain overheads, with which a few measured rounds are weighted.

The additional time of a task that computes, and the time for which cores are idle, are small
differences of large times. In one round they have errors of 100 % and 40 %, so that the first
answers on a machine had other candidates than the later ones. But relative to the overhead of a
task that does nothing, which is exact to about 10 %, they hardly differ between days.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from offload.bench.advice.inputs.overhead import Overhead

TYPICAL_ROUNDS = 3  # measured rounds that have the same weight as the typical values; a guess


@dataclass(frozen=True)
class TypicalOverhead:
    """Typical values of a strategy, as multiples of the CPU time of a task that does nothing.

    `serial` and `cpu` are the additional times of a task that computes, `idle` the idle time; None
    for the loop, which has no workers.
    """

    serial: float
    cpu: float
    idle: float | None


# Medians of 15 sets of one to three rounds, Tornado, 2 cores, Python 3.11, 2026-11-24 to
# 2026-11-26; `python -m scripts.checks.typical_overheads` measures them again
TYPICAL = {
    "loop": TypicalOverhead(0.17, 0.22, None),
    "threads": TypicalOverhead(0.04, 0.05, 0.52),
    "processes": TypicalOverhead(0.19, 0.21, 0.47),
    "pipes": TypicalOverhead(0.49, 0.67, 1.21),
    "prefork": TypicalOverhead(0.10, 0.09, 0.77),
}


def weight_with_typical(found: Mapping[str, Overhead], rounds: int) -> dict[str, Overhead]:
    """Return overheads, measured in some `rounds`, weighted with the typical ones.

    Unknown parts stay unknown.
    """
    return {name: _weighted(each, TYPICAL[name], rounds) for name, each in found.items()}


def _weighted(found: Overhead, typical: TypicalOverhead, rounds: int) -> Overhead:
    def mean_s(measured_s: float, share: float) -> float:
        typical_s = share * found.cpu_s
        return (rounds * measured_s + TYPICAL_ROUNDS * typical_s) / (rounds + TYPICAL_ROUNDS)

    computing, idle_s = found.computing, found.idle_s
    if computing is not None:
        computing = replace(
            computing,
            serial_s=mean_s(computing.serial_s, typical.serial),
            cpu_s=mean_s(computing.cpu_s, typical.cpu),
        )
    if idle_s is not None and typical.idle is not None:
        idle_s = mean_s(idle_s, typical.idle)
    return replace(found, computing=computing, idle_s=idle_s)
