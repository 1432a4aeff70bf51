"""The break-even of a dask cluster: the duration of a call from which several machines are faster.

It was measured on one machine with 2 cores: one process, which represents one machine, was compared
with two dask workers, which represent two machines.
"""

from __future__ import annotations

from dataclasses import dataclass

from offload.bench.advice.answer import Answer
from offload.bench.advice.prediction import limits


@dataclass(frozen=True)
class BreakEven:
    """A duration of a call in s, with its 95 % interval."""

    seconds: float
    low: float
    high: float


# From this duration on, two dask workers complete as many calls as one process [6 rounds on 2
# cores, which the scheduler shares].
BREAK_EVEN = BreakEven(0.020, 0.018, 0.022)


def is_worth_it(answer: Answer) -> bool:
    """Whether this machine's CPU is the limit, and a call is clearly longer than the break-even."""
    is_limited_by_cpu = answer.chosen.prediction.limit == limits.CPU
    return is_limited_by_cpu and answer.question.probe.call.wall_s > BREAK_EVEN.high
