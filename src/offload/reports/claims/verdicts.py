"""Verdicts on published claims, as text, as a document or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from offload.bench.claims.evaluate import ClaimVerdict
from offload.documents.text import TableLine, literal, render_table

HEAD = ("Suite", "Claim", "Published", "Here", "Verdict")


def text(verdicts: Sequence[ClaimVerdict]) -> str:
    """Render the verdicts, each with its reason below it."""
    lines = [
        TableLine((one.suite, one.claim, *figures(one), one.verdict), one.reason)
        for one in verdicts
    ]
    return render_table(HEAD, lines, left=2)


def counted(found: Sequence[ClaimVerdict]) -> str:
    """Return a sentence with the number of claims for each verdict."""
    counts = Counter(verdict.verdict for verdict in found)
    words = ", ".join(f"{word} {count}" for word, count in counts.most_common())
    return f"{counts.total()} claims and audits: {words}."


def figures(verdict: ClaimVerdict) -> tuple[str, str]:
    """Format the published figure and the figure that was measured here."""
    return _figure(verdict.published, verdict.unit), _here(verdict)


def rst(verdicts: Sequence[ClaimVerdict], sources: Sequence[str], checks: str, claims: str) -> str:
    """Render a document: verdicts, the run of each suite (`sources`), capacity checks, claims."""
    title = "Claims and verdicts"
    listed = "\n".join(f"* {source}" for source in sources)
    explanation = (
        "A ratio is the rate of the second case divided by that of the first (or the time, or the\n"
        'memory, if named), with its 95 % interval. For audits, "Here" is the highest rate that\n'
        "arithmetic allows. A share is that of the completed requests."
    )
    tables = [literal(table) for table in (text(verdicts), checks) if table]
    parts = [f"{title}\n{'=' * len(title)}", explanation, tables[0], listed, *tables[1:], claims]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(verdicts: Sequence[ClaimVerdict]) -> str:
    """Return a JSON list: ratios, shares in % or rates/s (audits); unknown values are null."""
    return json.dumps([asdict(verdict) for verdict in verdicts], indent=2) + "\n"


def _here(verdict: ClaimVerdict) -> str:
    if verdict.unit == "/s":
        return "-" if verdict.here is None else f"at most {_figure(verdict.here, verdict.unit)}"
    if verdict.low is None or verdict.high is None:
        return _figure(verdict.here, verdict.unit)
    return f"{_figure(verdict.here, verdict.unit)} ({verdict.low:.2f} to {verdict.high:.2f})"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}{unit}"
