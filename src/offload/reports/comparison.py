"""The verdict of a comparison, in words or as JSON."""

from __future__ import annotations

import json
import statistics

from offload.bench.experiments.paired import Comparison
from offload.bench.stats import paired_test
from offload.reports import warnings

WORDS = {
    paired_test.FASTER: "{other} is faster than {one}",
    paired_test.SLOWER: "{other} is slower than {one}",
    paired_test.SAME: "{other} is the same as {one}",
    paired_test.TINY: "{other} differs from {one} by less than matters",
    paired_test.UNRESOLVED: "no clear difference between {one} and {other}",
}


def text(found: Comparison) -> str:
    """Say what was found, with ratio and interval."""
    said = found.verdict
    names = {"one": found.one.name, "other": found.other.name}
    lines = [f"{said.word}: {WORDS[said.word].format(**names)}"]
    if said.ratio is not None and said.low is not None and said.high is not None:
        lines.append(
            f"ratio {said.ratio:.3f}, 95 % interval {said.low:.3f} to {said.high:.3f}, "
            f"{said.pairs} pairs"
        )
    for name, rate in zip(names.values(), _rates(found), strict=True):
        lines.append(f"{name}: {'no rate' if rate is None else f'{rate:.2f}/s'}")
    if said.more_pairs:
        lines.append(f"about {said.more_pairs} more pairs would settle it on a machine like now")
    return "\n".join([*lines, *_flags(found), f"records: {found.folder}"])


def as_json(found: Comparison) -> str:
    """Give the verdict as one JSON object; the ratio is of `other` over `one`."""
    said = found.verdict
    return json.dumps(
        {
            "one": found.one.name,
            "other": found.other.name,
            "verdict": said.word,
            "ratio": said.ratio,
            "ratio_low": said.low,
            "ratio_high": said.high,
            "pairs": said.pairs,
            "more_pairs": said.more_pairs,
            "rates": _rates(found),
            "flags": _flags(found),
            "records": str(found.folder),
        },
        indent=2,
    )


def _rates(found: Comparison) -> list[float | None]:
    """Give the geometric mean of each case's slices."""
    rates: list[list[float]] = [[], []]
    for place, record in enumerate(found.records):  # two a pair, in the order of the cases
        if record.result.rate:
            rates[place % 2].append(record.result.rate)
    return [statistics.geometric_mean(known) if known else None for known in rates]


def _flags(found: Comparison) -> list[str]:
    return warnings.counted(found.records, "slices")
