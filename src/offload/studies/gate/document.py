"""The result of a gate for the page of its run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from offload import units
from offload.documents import BAD, GOOD, UNCLEAR, Document, Exhibit, Finding, Number, Ratio, Ratios
from offload.engine.decisions import LOSS, NO_LOSS
from offload.studies.gate import formats
from offload.studies.gate.result import PASSED, RED, GatedCase, GateResult
from offload.studies.gate.rule import FAILS

TONES = {NO_LOSS: GOOD, LOSS: BAD, FAILS: BAD}
HEAD = ("Case", "Ratio", "From", "To", "Verdict", "Rounds")
ABOUT = ("Ratio: the rate now over that of the baseline; From, To: its 98 % interval.",)


def document(found: GateResult) -> Document:
    """Return the verdicts on the cases, and a chart of the changes of their rates."""
    rows = tuple((case.name, *_cells(case)) for case in found.cases)
    caption = "Rates now, relative to the baseline"
    return Document(
        formats.headline(found),
        has_verdict=found.outcome in (PASSED, RED),
        is_good=found.outcome == PASSED,
        findings=tuple(_findings(found)),
        exhibits=(Exhibit("Ratios", caption, HEAD, rows, ABOUT, _chart(found)),),
    )


def _findings(found: GateResult) -> Iterator[Finding]:
    for case in found.cases:
        outcome, reason = case.verdict.outcome, formats.reason_of(found, case)
        words = _sentence(": ".join(part for part in (outcome, reason) if part))
        change = formats.change_text(case.verdict.change)
        yield Finding(words, case.name, change, TONES.get(outcome, UNCLEAR))
    if found.condition is not None:
        yield Finding(_sentence(formats.condition_text(found.condition)))
    yield Finding(" ".join(map(_sentence, formats.conditions(found))))


def _sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."


def _cells(case: GatedCase) -> Iterator[str | Number]:
    change = case.verdict.change
    for value in (change.value, change.low, change.high):
        known = value if value is not None and math.isfinite(value) else None
        yield Number(f"{known or 0.0:.3f}x", known)
    yield case.verdict.outcome
    yield Number(str(case.verdict.rounds), case.verdict.rounds)


def _chart(found: GateResult) -> Ratios | None:
    ratios = []
    for case in found.cases:
        change = case.verdict.change
        if change.value is None:
            continue
        has_ends = change.high <= formats.LARGEST
        low, high = (change.low, change.high) if has_ends else (None, None)
        words, tone = units.ratio(change.value, low, high), TONES.get(case.verdict.outcome, UNCLEAR)
        ratios.append(Ratio(case.name, words, change.value, low, high, tone))
    about, sides = "The lines are 98 % intervals.", ("slower now", "faster now")
    return Ratios("Rate now, relative to the baseline", tuple(ratios), about, sides)
