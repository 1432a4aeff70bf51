"""The verdict of a comparison, as text or JSON."""

from __future__ import annotations

import json

from offload.bench.experiments.paired import ComparedCases
from offload.bench.stats import paired_test
from offload.reports import warnings

SENTENCES = {
    paired_test.FASTER: "{other} is faster than {one}",
    paired_test.SLOWER: "{other} is slower than {one}",
    paired_test.SAME: "{other} is the same as {one}",
    paired_test.TINY: "{other} differs from {one} by less than matters",
    paired_test.UNRESOLVED: "no clear difference between {one} and {other}",
    paired_test.DISTURBED: "no verdict: {disturbance}",
}


def text(comparison: ComparedCases) -> str:
    """Render the verdict with its ratio, interval and rates."""
    verdict = comparison.found.verdict
    names = {"one": comparison.one.name, "other": comparison.other.name}
    sentence = SENTENCES[verdict.outcome].format(**names, disturbance=comparison.found.disturbed)
    bound = "; the load tool was the limit: the true difference is larger"
    lines = [f"{verdict.outcome}: {sentence}{bound if comparison.found.at_least else ''}"]
    if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
        lines.append(
            f"ratio {verdict.ratio:.3f}, 95 % interval {verdict.low:.3f} to {verdict.high:.3f}, "
            f"{verdict.pairs} rounds"
        )
    for name, rate in zip(names.values(), comparison.rates, strict=True):
        lines.append(f"{name}: {'no rate' if rate is None else f'{rate:.2f}/s'}")
    if verdict.more_pairs:
        lines.append(
            f"about {verdict.more_pairs} more rounds are needed for a verdict at this noise"
        )
    return "\n".join([*lines, *_flags(comparison), f"records: {comparison.folder}"])


def as_json(comparison: ComparedCases) -> str:
    """Return the verdict as a JSON object; the ratio is `other` over `one`."""
    verdict = comparison.found.verdict
    return json.dumps(
        {
            "one": comparison.one.name,
            "other": comparison.other.name,
            "verdict": verdict.outcome,
            "ratio": verdict.ratio,
            "ratio_low": verdict.low,
            "ratio_high": verdict.high,
            "pairs": verdict.pairs,
            "more_pairs": verdict.more_pairs,
            "at_least": comparison.found.at_least,
            "disturbed": comparison.found.disturbed and str(comparison.found.disturbed),
            "rates": comparison.rates,
            "flags": _flags(comparison),
            "records": str(comparison.folder),
        },
        indent=2,
    )


def _flags(comparison: ComparedCases) -> list[str]:
    return warnings.count_flags(comparison.records, "windows")
