"""The verdicts on published claims: one line each, as text, reStructuredText or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from tabulate import tabulate

from offload.bench.claims.evaluate import Judged

HEAD = ("Suite", "Claim", "Published", "Here", "Verdict", "Reason")
ALIGN = ("left", "left", "right", "right", "left", "left")


def text(found: Sequence[Judged], style: str = "simple") -> str:
    """Lay the verdicts out; `style` is "simple", or "rst" for reStructuredText."""
    lines = [
        (j.suite, j.claim, _figure(j.published, j.unit), _here(j), j.verdict, j.reason)
        for j in found
    ]
    return _table(lines, len(HEAD), style)


def short(found: Sequence[Judged]) -> str:
    """Lay the verdicts out as reStructuredText, without the reasons, which are long."""
    lines = [(j.suite, j.claim, _figure(j.published, j.unit), _here(j), j.verdict) for j in found]
    return _table(lines, len(HEAD) - 1, "rst")


def rst(found: Sequence[Judged], sources: Sequence[str], *more: str) -> str:
    """Render a document of them, with `more` below; `sources` names the run of each suite."""
    title = "Claims and verdicts"
    listed = "\n".join(f"* {source}" for source in sources)
    said = (
        "Ratios are of the second case over the first, of rates unless time or memory is named,\n"
        "with 95 % intervals; of an audit, which is arithmetic on published figures, Here is the\n"
        "ceiling of what was published. Shares are of requests that were completed."
    )
    parts = [f"{title}\n{'=' * len(title)}", said, text(found, "rst"), listed, *more]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(found: Sequence[Judged]) -> str:
    """Give a list of objects; ratios, shares in %, or of an audit rates/s; null is not known."""
    return json.dumps([asdict(judged) for judged in found], indent=2) + "\n"


def _table(lines: Sequence[Sequence[str]], columns: int, style: str) -> str:
    return tabulate(
        lines, HEAD[:columns], tablefmt=style, colalign=ALIGN[:columns], disable_numparse=True
    )


def _here(judged: Judged) -> str:
    if judged.unit == "/s":
        return "-" if judged.here is None else f"at most {_figure(judged.here, judged.unit)}"
    if judged.low is None or judged.high is None:
        return _figure(judged.here, judged.unit)
    return f"{_figure(judged.here, judged.unit)} ({judged.low:.2f} to {judged.high:.2f})"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}{unit}"
