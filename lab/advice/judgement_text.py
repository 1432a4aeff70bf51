"""The evaluation of advice as text: the requirements, each choice, and the baselines."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from lab.advice import baselines
from lab.advice.choice import Choice, compare_answers, compare_size
from lab.advice.evaluation import Evaluation
from lab.advice.judgement import Requirement
from lab.advice.recorded_answer import RecordedAnswer, first_answers
from lab.advice.truth import Truth, short_name
from offload.reports.advice.names import option_name
from offload.reports.tables import text_table
from offload.reports.tables.text_table import Line
from offload.units import percent

PASSED = {True: "ok", False: "MISSED", None: "unknown"}
AS_GOOD = {True: "yes", False: "no", None: "disturbed"}


def text(found: Evaluation, style: str = "simple") -> str:
    """Render the evaluation of the advice for one set of functions."""
    answers = first_answers(found.answers)
    choices = compare_answers(found.truths, answers, found.confirmations)
    parts = [_required(found.requirements, style), _choices(choices, answers, style)]
    if found.truths.keys() & found.models.keys():
        parts.append(baselines_table(found, style))
    if len(found.answers) > len(answers):
        parts.append(_repeated(found.answers, found.truths, style))
    return "\n\n".join(parts)


def _required(found: Sequence[Requirement], style: str) -> str:
    lines = [Line((r.name, r.measured, r.required, PASSED[r.passed])) for r in found]
    return text_table.render(("Requirement", "Measured", "Required", ""), lines, style)


def _choices(found: Sequence[Choice], answers: Sequence[RecordedAnswer], style: str) -> str:
    by_task = {each.task: each for each in answers}
    lines = []
    for each in found:
        own = by_task[each.task]
        error = "" if not own.rate else percent(own.predicted_rate / own.rate - 1, sign="+")
        cells = (
            short_name(each.task),
            option_name(own.strategy, own.workers),
            option_name(*each.best),
            percent(each.share),
            AS_GOOD[each.is_best],
            error,
            own.sure,
        )
        lines.append(Line(cells))
    head = ("Function", "Choice", "Best", "Relative rate", "As good", "Error", "Certainty")
    return text_table.render(head, lines, style)


def _repeated(answers: Sequence[RecordedAnswer], truths: Mapping[str, Truth], style: str) -> str:
    """Render how often each strategy was recommended for a function, and how long answers took."""
    lines = []
    for task in {each.task: None for each in answers}:
        own = [each for each in answers if each.task == task]
        counts = Counter(each.strategy for each in own).most_common()
        best = _best_strategy(truths[task]) if task in truths else "unknown"
        shares = ", ".join(f"{strategy} {count} of {len(own)}" for strategy, count in counts)
        seconds = [each.seconds for each in own]
        times = f"{min(seconds):.0f} to {max(seconds):.0f} s"
        lines.append(Line((short_name(task), best, shares, times)))
    return text_table.render(("Function", "Best strategy", "Answers", "Time"), lines, style)


def _best_strategy(truth: Truth) -> str:
    return "tie" if truth.is_tie else truth.best[0]


def baselines_table(found: Evaluation, style: str = "simple") -> str:
    """Render what the usual rules of thumb would have reached, beside the advice."""
    answers = first_answers(found.answers)
    by_name = {"advice": compare_answers(found.truths, answers, found.confirmations)}
    for task, model in found.models.items():
        if truth := found.truths.get(task):
            for name, size in baselines.baselines(truth, model).items():
                if choice := compare_size(truth, size):
                    by_name.setdefault(name, []).append(choice)
    lines = [Line(_baseline(name, own)) for name, own in by_name.items() if own]
    head = ("Choice by", "Best or tied", "Mean of the best rate", "Worst")
    return text_table.render(head, lines, style)


def _baseline(name: str, own: Sequence[Choice]) -> tuple[str, str, str, str]:
    best = sum(each.is_best is True for each in own)
    shares = [each.share for each in own]
    return (
        name,
        f"{best} of {len(own)}",
        percent(statistics.fmean(shares)),
        percent(min(shares)),
    )
