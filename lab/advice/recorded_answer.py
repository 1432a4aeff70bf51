"""The record of an answer, which the check of the advice saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.advice.strategies import Size


@dataclass(frozen=True)
class RecordedRatio:
    """The rate of a candidate over that of the chosen one, and the SD of its logarithm."""

    strategy: str
    workers: int
    ratio: float
    sd: float
    rounds: int


@dataclass(frozen=True)
class RecordedAnswer:
    """The record of an answer on one function: rates in requests/s, times in s.

    `sure` is a level of certainty, such as `certainty.SURE`. `p95_s` are in the order of
    `latency.LOADS`. `number` counts the answers to the same function.
    """

    task: str
    strategy: str
    workers: int
    rate: float | None
    predicted_rate: float
    sure: str
    seconds: float
    p95_s: tuple[float | None, ...] = ()
    ratios: tuple[RecordedRatio, ...] = ()
    number: int = 1

    @property
    def size(self) -> Size:
        """The chosen strategy and size."""
        return self.strategy, self.workers


def first_answers(answers: Sequence[RecordedAnswer]) -> list[RecordedAnswer]:
    """Return the first answer to each function."""
    return [each for each in answers if each.number == 1]
