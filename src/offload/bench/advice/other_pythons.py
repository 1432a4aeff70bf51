"""Predict the best strategy for the same task in other interpreters, each from a probe there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from offload.bench.advice import answer
from offload.bench.advice.inputs import probe_measurement
from offload.bench.advice.question_file import OtherPython, Question
from offload.bench.target.needed_upstream import hold_for
from offload.errors import UserError
from offload.suites import Case


def predict(
    case: Case, question: Question, names: Sequence[str], report: Callable[[str], object]
) -> Iterator[OtherPython]:
    """Yield a prediction for each of `names`, in 10 s each.

    The overheads of the strategies are those of `question`, which were measured in this Python.
    """
    here = answer.predict(question, case).chosen.prediction.rate
    for name in names:
        report(f"calls of the function in Python {name}: 10 s")
        other = replace(case, python=name)
        try:
            with hold_for(other) as upstream:
                found = probe_measurement.measure(other, upstream, other.users)
        except UserError as error:
            yield OtherPython(name, problem=str(error))
            continue
        other_question = replace(question, probe=found)
        if not other_question.model.ranking():
            yield OtherPython(name, problem="no strategy fits into the memory")
            continue
        best = answer.predict(other_question, other).chosen.prediction
        yield OtherPython(name, best, best.rate / here)
