"""The sentences and formatted figures that all text formats of a gate's result share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from offload import units
from offload.bench.analysis.gate import ConditionVerdict
from offload.bench.experiments.gate import GatedCase, GateResult
from offload.documents import notes
from offload.engine.decisions import LOSS, UNDECIDED
from offload.engine.figures import Measured
from offload.engine.intervals import GATE, Estimate
from offload.units import percent

DIGITS = 1  # decimal places of a change in percent
LARGEST = 100.0  # ratio: a larger end of an interval, as after two rounds, is not printed
HOLDS = {True: "holds", False: "does not hold", None: "is undecided"}


def headline(found: GateResult) -> str:
    """Return the result as a sentence."""
    limit, against = limit_of(found), found.baseline
    if found.failed:
        what = f"lost more than {limit} of the rate" if has_lost(found) else "failed"
        return f"{_who(found, found.failed, 'all')} {what} against {against}."
    holds = found.condition is None or found.condition.holds
    if holds is False or (holds is None and not found.open):
        return f"The condition {HOLDS[holds]}."
    if found.open:
        return f"No verdict on {_who(found, found.open, 'any of')} against {against}."
    return (
        f"No loss of more than {limit} in {_who(found, found.cases, 'any of')} against {against}."
    )


def has_lost(found: GateResult) -> bool:
    """Whether all failed cases lost too much of their rate, so that none has failing requests."""
    return all(case.verdict.outcome == LOSS for case in found.failed)


def _who(found: GateResult, cases: Sequence[GatedCase], all_words: str) -> str:
    """Return the name of a gate's only case, or how many of its cases a sentence is about."""
    if len(found.cases) == 1:
        return found.cases[0].name
    if len(cases) == len(found.cases):
        return f"{all_words} {len(cases)} cases"
    return f"{len(cases)} of {len(found.cases)} cases"


def names(found: GateResult) -> str:
    """Return the names of the cases that the headline counts, or its condition."""
    holds = found.condition is None or found.condition.holds
    cases = found.failed or ([] if holds is False else found.open)
    if not cases and found.condition is not None:
        return found.condition.text
    return " and ".join(case.name for case in cases) if len(found.cases) > 1 else ""


def limit_of(found: GateResult) -> str:
    """Return the loss that a gate allows, as the user gave it: `5 %`, `2.5 %`, `0.25 %`."""
    return f"{100 * found.terms.loss:.9g} %"


def change(ratio: Measured) -> str:
    """Format the change of a rate: `-12.0 % (-15.1 to -8.8)`."""
    if ratio.value is None:
        return "-"
    value, low, high = (100 * (end - 1) for end in (ratio.value, ratio.low, ratio.high))
    if ratio.high > LARGEST:
        return f"{value:+.{DIGITS}f} % (at least {low:+.{DIGITS}f})"
    return f"{value:+.{DIGITS}f} % ({low:+.{DIGITS}f} to {high:+.{DIGITS}f})"


def rate(estimate: Estimate) -> str:
    """Format a rate."""
    return "-" if estimate.value is None else f"{units.number(estimate.value)}/s"


def reason(found: GateResult, case: GatedCase) -> str:
    """Return the reason of a verdict and the remedy; empty if the interval is the reason."""
    verdict = case.verdict
    if verdict.reason is not None:
        return ": ".join(part for part in (verdict.reason.message, verdict.reason.remedy) if part)
    if verdict.outcome != UNDECIDED:
        return ""
    if found.kept is not None:
        return "its interval includes the limit"
    limit = limit_of(found)
    is_lower = verdict.change.high < 1
    what = f"its loss is close to {limit}" if is_lower else f"its interval includes {limit}"
    if verdict.more_rounds is None:
        return f"{what}: more rounds will not decide it"
    if verdict.rounds + verdict.more_rounds > GATE.last:
        return f"{what}: the {GATE.last} rounds of a gate will not decide it: increase gate="
    return f"{what}: about {verdict.more_rounds} more rounds may decide it: increase budget="


def condition(verdict: ConditionVerdict) -> str:
    """Return whether the condition holds, with its figures."""
    figures = [f"{name} is {measured(value)}" for name, value in verdict.figures.items()]
    return f"{verdict.text}: {HOLDS[verdict.holds]}; {', '.join(figures)}"


def measured(value: Measured) -> str:
    """Format a figure with its interval: `431.2 (425 to 437.5)`."""
    if value.value is None:
        return "unknown"
    shown, low, high = (_digits(each) for each in (value.value, value.low, value.high))
    if value.high == math.inf:
        known = "its interval is unknown" if value.low in (0, -math.inf) else f"at least {low}"
        return f"{shown} ({known})"
    return f"{shown} ({low} to {high})"


def _digits(value: float) -> str:
    """Format a figure with 4 digits, or a large one without decimal places."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def remarks(found: GateResult) -> Iterator[str]:
    """Yield how the cases were measured, and the warnings."""
    yield from conditions(found)
    yield from flags(found)


def flags(found: GateResult) -> list[str]:
    """Return the warnings on the windows of both sides of each case."""
    sides = [
        (f"{case.name} {side}", windows)
        for case in found.cases
        for side, windows in (
            ("in the baseline", case.sides.baseline),
            ("now", case.sides.now),
        )
    ]
    return notes.case_warnings(sides)


def conditions(found: GateResult) -> Iterator[str]:
    """Yield how the cases were measured."""
    if found.kept is None:
        rounds = sorted({case.verdict.rounds for case in found.cases})
        span = f"{rounds[0]} to {rounds[-1]}" if len(rounds) > 1 else f"{rounds[0]}"
        yield f"Measured side by side in {span} rounds of fresh servers."
        yield f"What differs: {'; '.join(found.terms.differences)}."
    else:
        yield from _kept_runs(found)
    yield "Change: the rate now over that of the baseline, with its 98 % interval."
    for name in found.left_out:
        yield f"Not compared, because only one run has it: {name}."


def _kept_runs(found: GateResult) -> Iterator[str]:
    """Yield the limits of a comparison of kept runs."""
    assert found.kept is not None
    kept = found.kept
    runs = f"{kept.baseline} and {kept.now}"
    yield f"Two kept runs are compared, {runs}, which were measured at different times."
    least = kept.smallest(found.terms.loss)
    if kept.moved is None or least is None:
        yield "The change of the machine's speed between them is unknown, so there is no verdict."
    else:
        moved = percent(kept.moved, DIGITS)
        yield (
            f"The machine's speed changed by {moved} during and between them. Each interval "
            f"includes this change, so no loss below {percent(least, DIGITS)} can be detected."
        )
    command = "offload compare_runs NAME against=path/to/other/checkout"
    yield f"Side by side, the speed cancels: {command}."
