"""The verdict of a comparison in words, and its values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offload.documents import notes
from offload.documents.rows import case_name
from offload.documents.text import wrapped
from offload.engine import decisions
from offload.engine.figures import ComparedCases, Comparison, compare_windows, estimate_rate
from offload.engine.record import Record, RunRecords

SENTENCES = {
    decisions.FASTER: "{other} is faster than {one}",
    decisions.SLOWER: "{other} is slower than {one}",
    decisions.SAME: "{other} is as fast as {one}",
    decisions.TINY: "{other} differs from {one} too little to matter",
    decisions.UNRESOLVED: "no clear difference between {one} and {other}",
    decisions.DISTURBED: "no verdict: {disturbance}",
}


def verdict_lines(
    names: tuple[str, str], result: Comparison, rates: tuple[float | None, float | None]
) -> list[str]:
    """Return the lines of the verdict on two named cases; the ratio is second over first."""
    verdict, (one, other) = result.verdict, names
    disturbance = "" if result.disturbed is None else result.disturbed.message
    sentence = SENTENCES[verdict.outcome].format(one=one, other=other, disturbance=disturbance)
    bound = "; the load tool was the limit: the true difference is larger"
    text = [f"{verdict.outcome}: {sentence}{bound if result.at_least else ''}"]
    if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
        least = ""
        if result.at_least:  # the difference is at least this; if `other` is slower, a lower ratio
            least = "at most " if verdict.outcome == decisions.SLOWER else "at least "
        text.append(
            f"ratio {least}{verdict.ratio:.3f}, 95 % interval {verdict.low:.3f} to "
            f"{verdict.high:.3f}, {verdict.pairs} rounds"
        )
    for name, known in zip(names, rates, strict=True):
        text.append(f"{name}: {'no rate' if known is None else f'{known:.2f}/s'}")
    if verdict.more_pairs and result.disturbed is None:
        text.append(
            f"about {verdict.more_pairs} more rounds are needed for a verdict at this noise"
        )
    return text


def verdict_text(records: Sequence[Record]) -> str:
    """Render the verdict of a run of two cases in one block; empty for any other run."""
    if not (run := RunComparison.of(records)):
        return ""
    text = verdict_lines(run.names, run.comparison, run.rates)
    return "\n".join(map(wrapped, text))


@dataclass(frozen=True)
class RunComparison:
    """The comparison of a run of two cases in one block, derived from its records alone."""

    names: tuple[str, str]
    comparison: Comparison
    rates: tuple[float | None, float | None]
    windows: tuple[Record, ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> RunComparison | None:
        """Compare the cases of a run; None for any other run, or if a case has no window."""
        own = RunRecords(records)
        one, other = (own.at(place).windows() for place in (0, 1))
        trials = [record.trial for record in own.windows()]
        if not one or not other or {(t.block, t.place) for t in trials} != {(0, 0), (0, 1)}:
            return None
        first, second = (case_name(windows[-1]) for windows in (one, other))
        return cls(
            (first, second),
            compare_windows(one, other),
            (estimate_rate(one).value, estimate_rate(other).value),
            (*one, *other),
        )


def verdict_values(cases: ComparedCases) -> dict[str, object]:
    """Return the verdict for JSON; the ratio is `other` over `one`."""
    verdict = cases.comparison.verdict
    return {
        "one": cases.one.name,
        "other": cases.other.name,
        "verdict": verdict.outcome,
        "ratio": verdict.ratio,
        "ratio_low": verdict.low,
        "ratio_high": verdict.high,
        "pairs": verdict.pairs,
        "more_pairs": verdict.more_pairs,
        "at_least": cases.comparison.at_least,
        "disturbed": cases.comparison.disturbed and str(cases.comparison.disturbed),
        "rates": cases.rates,
        "flags": window_warnings(cases),
        "records": str(cases.folder),
    }


def window_warnings(cases: ComparedCases) -> list[str]:
    """Return the warnings on the windows of two compared cases."""
    own = RunRecords(cases.records)
    return notes.case_warnings(
        (name, own.at(place).records) for place, name in enumerate(cases.names)
    )
