"""The verdict of a comparison, as text or JSON."""

from __future__ import annotations

import json
import statistics

from offload.bench.experiments.paired import Comparison
from offload.bench.stats import paired_test
from offload.reports import warnings

SENTENCES = {
    paired_test.FASTER: "{other} is faster than {one}",
    paired_test.SLOWER: "{other} is slower than {one}",
    paired_test.SAME: "{other} is the same as {one}",
    paired_test.TINY: "{other} differs from {one} by less than matters",
    paired_test.UNRESOLVED: "no clear difference between {one} and {other}",
}


def text(comparison: Comparison) -> str:
    """Render the verdict with its ratio, interval and rates."""
    verdict = comparison.verdict
    names = {"one": comparison.one.name, "other": comparison.other.name}
    lines = [f"{verdict.outcome}: {SENTENCES[verdict.outcome].format(**names)}"]
    if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
        lines.append(
            f"ratio {verdict.ratio:.3f}, 95 % interval {verdict.low:.3f} to {verdict.high:.3f}, "
            f"{verdict.pairs} pairs"
        )
    for name, rate in zip(names.values(), _rates(comparison), strict=True):
        lines.append(f"{name}: {'no rate' if rate is None else f'{rate:.2f}/s'}")
    if verdict.more_pairs:
        lines.append(
            f"about {verdict.more_pairs} more pairs are needed for a verdict at this level of noise"
        )
    return "\n".join([*lines, *_flags(comparison), f"records: {comparison.folder}"])


def as_json(comparison: Comparison) -> str:
    """Return the verdict as a JSON object; the ratio is `other` over `one`."""
    verdict = comparison.verdict
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
            "rates": _rates(comparison),
            "flags": _flags(comparison),
            "records": str(comparison.folder),
        },
        indent=2,
    )


def _rates(comparison: Comparison) -> list[float | None]:
    """Return the geometric mean of the rates of each case."""
    rates: list[list[float]] = [[], []]
    for place, record in enumerate(comparison.records):  # two per pair, in the order of the cases
        if record.result.rate:
            rates[place % 2].append(record.result.rate)
    return [statistics.geometric_mean(known) if known else None for known in rates]


def _flags(comparison: Comparison) -> list[str]:
    return warnings.count_flags(comparison.records, "slices")
