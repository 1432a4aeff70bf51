"""Capacity checks of claims: rates against ceilings, and users against rate x mean (Little)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.documents.rows import Row, case_label, rate_text, rows
from offload.documents.text import TableLine, render_table
from offload.engine.record import Record
from offload.suites import Claim
from offload.units import percent

HEAD = ("Suite", "Case", "Rate /s", "Ceiling /s", "Reached", "Users", "Rate x mean")
TITLE = "Rates against their ceilings, and users against rate x mean response time"

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
    body = render_table(HEAD, [TableLine(cells) for cells in found], left=2)
    return f"{TITLE}\n{'-' * len(TITLE)}\n\n{body}"


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
