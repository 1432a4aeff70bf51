"""The strategies without a measured rate, and why: an answer lists them beside its candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offload.bench.advice.answer import Answer
from offload.bench.advice.candidates import WORTH_MEASURING
from offload.bench.advice.prediction.model import Prediction
from offload.bench.advice.strategies import STRATEGIES
from offload.flags import Problem

UNSAFE, MEMORY, SLOW, BUDGET, INTERRUPTED, FAILED = (
    "unsafe",  # with several workers the results are wrong, or the calls fail
    "memory",  # no size fits into the memory
    "slow",  # predicted to be too far below the best
    "budget",  # predicted to be near the best, but other candidates took the places or the time
    "interrupted",
    "failed",  # a server could not be measured
)


@dataclass(frozen=True)
class Unmeasured:
    """A strategy without a measured rate, and why.

    `prediction` is for its best size; None if no size is possible. `problem` is known for FAILED.
    """

    strategy: str
    prediction: Prediction | None
    why: str
    problem: Problem | None = None


def of_answer(answer: Answer) -> list[Unmeasured]:
    """Return the candidates that failed, then the strategies without a rate, the fastest first.

    A predicted answer has a rate for each strategy that is possible.
    """
    failed = [
        Unmeasured(each.prediction.strategy, each.prediction, FAILED, each.problem)
        for each in answer.failures
    ]
    others = sorted(
        _others(answer), key=lambda each: -(each.prediction.rate if each.prediction else 0)
    )
    return [*failed, *others]


def _others(answer: Answer) -> Iterator[Unmeasured]:
    known = {option.strategy for option in (answer.chosen, *answer.others)}
    known |= {failure.prediction.strategy for failure in answer.failures}
    model = answer.question.model
    highest = max((each.rate for each in model.ranking()), default=0.0)
    for strategy in STRATEGIES:
        if strategy in known:
            continue
        prediction = model.best_size(strategy)
        if prediction is None:
            yield Unmeasured(strategy, None, UNSAFE if model.fails_in(strategy) else MEMORY)
        elif prediction.rate < WORTH_MEASURING * highest:
            yield Unmeasured(strategy, prediction, SLOW)
        else:
            why = INTERRUPTED if answer.is_interrupted else BUDGET
            yield Unmeasured(strategy, prediction, why)
