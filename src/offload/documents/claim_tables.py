"""Verdicts on published claims, as text, as a document or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from offload.documents.rows import Row, case_label, rate_text, rows
from offload.documents.text import TableLine, literal, render_table
from offload.engine.claim_evaluation import ClaimVerdict
from offload.engine.record import Record
from offload.suites import Audit, Availability, Claim
from offload.units import percent

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


# Capacity checks: rates against ceilings, and users against rate x mean (Little)


CHECKS_HEAD = ("Suite", "Case", "Rate /s", "Ceiling /s", "Reached", "Users", "Rate x mean")
CHECKS_TITLE = "Rates against their ceilings, and users against rate x mean response time"

Line = tuple[str, ...]


def lines(suite: str, claims: Sequence[Claim], records: Sequence[Record]) -> list[Line]:
    """Return a line for each case of the claims that has a rate in a run of their suite."""
    cases = {case.key: case for claim in claims for case in (claim.one, claim.other)}
    found: list[Line] = []
    for case in cases.values():
        keys = (case.key, case.quick().key)
        found += _lines(suite, [record for record in records if record.key in keys])
    return found


def table(found: Sequence[Line]) -> str:
    """Render the lines under their title; empty without lines."""
    if not found:
        return ""
    body = render_table(CHECKS_HEAD, [TableLine(cells) for cells in found], left=2)
    return f"{CHECKS_TITLE}\n{'-' * len(CHECKS_TITLE)}\n\n{body}"


def _lines(suite: str, own: Sequence[Record]) -> Iterator[Line]:
    for row in rows(own):
        if row.rate is None:
            continue
        ceiling = row.ceiling
        yield (
            suite,
            case_label(row.first),
            rate_text(row),
            "-" if ceiling is None else f"{ceiling.kind} {ceiling.rate:.2f}",
            "-" if row.reached is None else percent(row.reached),
            str(row.first.case.users),
            _users_by_little(row),
        )


def _users_by_little(row: Row) -> str:
    """Format the number of users by Little's law: rate x mean response time."""
    if row.rate is None or row.response_mean_s is None:
        return "-"
    return f"{row.rate * row.response_mean_s:.1f}"


# The published claims as sentences, grouped by author, source and conditions


SOURCES_TITLE = "Claims and sources"


def sources_rst(claims: Sequence[tuple[str, Claim | Availability | Audit]]) -> str:
    """Render (suite, claim) pairs as reStructuredText, each claim with its name."""
    sources: dict[str, list[str]] = {}
    for suite, one in claims:
        conditions = getattr(one, "conditions", "")
        source = f"{suite}: {one.who}, {one.where}" + (f" ({conditions})" if conditions else "")
        sources.setdefault(source, []).append(f"  * {one.name}: {one.statement}")
    parts = ["\n".join([f"* {source}", "", *lines]) for source, lines in sources.items()]
    return "\n\n".join([f"{SOURCES_TITLE}\n{'-' * len(SOURCES_TITLE)}", *parts])
