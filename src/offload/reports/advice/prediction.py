"""The predicted rate of the advised server, and its difference from the measured rate."""

from __future__ import annotations

from collections.abc import Iterator

from offload.bench.advice.answer import Answer, predict
from offload.bench.stats.paired_test import DISTURBED
from offload.reports.advice.names import option_name
from offload.reports.tables.formats import number
from offload.units import percent

EXACT, UNRELIABLE = 0.005, 0.15  # relative differences of two rates


def sentences(answer: Answer) -> Iterator[str]:
    """Yield the difference between the predicted and the measured rate of the chosen strategy.

    If the measurement was disturbed, yield the strategy with the best prediction instead.
    """
    memory = "Memory with ~ is predicted."
    if answer.sure == DISTURBED:
        best = predict(answer.question, answer.chosen.case).chosen.prediction
        name = option_name(best.strategy, best.workers)
        yield (
            f"{name} with {number(best.rate)}/s, calculated from calls of the function alone, "
            f"which may have been disturbed, too. {memory}"
        )
        return
    measured, predicted = answer.chosen.rate.value, answer.chosen.prediction.rate
    if measured is None:
        return
    name = option_name(answer.chosen.strategy, answer.chosen.workers)
    yield f"{compare_with_measured(name, predicted, measured)} {memory}"


def compare_with_measured(name: str, predicted: float, measured: float) -> str:
    """Return the predicted rate of the advised server, `name`, and its error."""
    error = predicted / measured - 1
    warning = ": do not rely on predictions here" if is_unreliable(predicted, measured) else ""
    difference = "as measured"
    if abs(error) >= EXACT:
        difference = f"{percent(abs(error))} {'above' if error > 0 else 'below'} the measured rate"
    return f"{number(predicted)}/s for {name}, {difference}{warning}."


def is_unreliable(predicted: float, measured: float) -> bool:
    """Whether a predicted rate differs from the measured one by more than UNRELIABLE."""
    return abs(predicted / measured - 1) > UNRELIABLE
