"""Compare the choices of answers with the measured truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.advice.recorded_answer import RecordedAnswer
from lab.advice.truth import Truth
from offload.bench.advice.strategies import Size
from offload.bench.stats.paired_test import DISTURBED, SLOWER, Verdict


@dataclass(frozen=True)
class Choice:
    """A choice compared with the truth.

    `chosen` is the measured size that is nearest to the choice, and `share` is its rate over the
    best rate. `is_best` is False if the choice is certainly slower than the best size; it is None
    if the comparison was disturbed. `interval` is that of `share`; None if it is not known.
    """

    task: str
    chosen: Size
    best: Size
    share: float
    is_best: bool | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Confirmation:
    """The second measurement of a choice.

    `verdict` compares the choice with the best size of the truth (above a ratio of 1 the choice is
    faster); it is None if the choice is the best size. `p95_s` are response times in s, in the
    order of `latency.LOADS`.
    """

    verdict: Verdict | None = None
    p95_s: tuple[float | None, ...] = ()


def compare_size(truth: Truth, size: Size, confirmed: Verdict | None = None) -> Choice | None:
    """Compare a choice with the truth; return None if its strategy has no known rate.

    `confirmed` is the verdict of a second measurement, and replaces that of the truth.
    """
    nearest = truth.nearest(size)
    if nearest is None:
        return None
    rates, best = truth.rates, truth.best
    share = rates[nearest] / rates[best]
    verdict = None if nearest == best else truth.compare(nearest)
    if confirmed is not None and confirmed.ratio is not None:
        verdict, share = confirmed, min(1.0, confirmed.ratio)
    if verdict is None:
        return Choice(truth.task, nearest, best, share, True)
    is_best = None if verdict.outcome == DISTURBED else verdict.outcome != SLOWER
    low, high = verdict.low, verdict.high
    interval = None if low is None or high is None else (low, high)
    return Choice(truth.task, nearest, best, share, is_best, interval)


def compare_answers(
    truths: Mapping[str, Truth],
    answers: Sequence[RecordedAnswer],
    confirmations: Mapping[str, Confirmation],
) -> list[Choice]:
    """Compare the choice of each answer with the truth, if its function has one."""
    found = []
    for answer in answers:
        if answer.task in truths:
            again = confirmations.get(answer.task, Confirmation())
            found.append(compare_size(truths[answer.task], answer.size, again.verdict))
    return [each for each in found if each is not None]
