"""A page of claims: a table of the verdicts for each published source, with their reasons."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

from offload.documents import claim_tables
from offload.documents.text import WIDTH, wrapped
from offload.engine.claim_evaluation import ClaimVerdict
from offload.suites import Audit, Availability, Claim

HEAD = ("Claim", "Published", "Here", "Verdict", "Reason")
WIDTHS = "36 10 20 14 20"  # of the columns, in percent
MARKUP = re.compile(r"([\\*`|@]|_\b)")  # markup of reStructuredText

Evaluated = tuple[Claim | Availability | Audit, ClaimVerdict]


def rst(found: Mapping[str, Sequence[Evaluated]], conditions: Mapping[str, str]) -> str:
    """Render the claims of each suite, with their verdicts, as reStructuredText.

    `conditions` describe when, where and with which tools each run was measured.
    """
    every = [verdict for pairs in found.values() for _, verdict in pairs]
    parts = [wrapped(claim_tables.counted(every))]
    for suite, pairs in found.items():
        parts.append(f"{suite}\n{'-' * len(suite)}")
        if run := next((verdict.run for _, verdict in pairs if verdict.run), None):
            parts.append(f"The figures are from the committed run ``results/{run}``.")
            parts += [conditions[run]] if run in conditions else []
        sources: dict[str, list[Evaluated]] = {}
        for claim, verdict in pairs:
            sources.setdefault(_source(claim), []).append((claim, verdict))
        for source, own in sources.items():
            parts += [wrapped(_plain(source)), _table(own)]
    return "\n\n".join(parts)


def _source(claim: Claim | Availability | Audit) -> str:
    conditions = "" if isinstance(claim, Audit) else f" Conditions: {claim.conditions}."
    audit = "Audit of the rates in " if isinstance(claim, Audit) else ""
    return f"{audit}{claim.who}, {claim.where}.{conditions}"


def _table(found: Sequence[Evaluated]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {WIDTHS}", ""]
    lines += _row(HEAD)
    for claim, verdict in found:
        cases = _cases(claim) if isinstance(claim, Claim) else ""
        words = f"**{_plain(verdict.claim)}**: {_plain(claim.statement + cases)}"
        cells = (*claim_tables.figures(verdict), verdict.verdict, verdict.reason)
        lines += _row([words, *map(_plain, cells)])
    return "\n".join(lines)


def _cases(claim: Claim) -> str:
    """Return the names of the cases; their ids, with all settings, if the names are equal."""
    one, other = claim.one.name, claim.other.name
    if one == other:
        one, other = claim.one.id, claim.other.id
    return f" ({other} over {one})"


def _row(cells: Sequence[str]) -> list[str]:
    """Return the lines of a row of a list-table."""
    marks = ["   * - ", *["     - "] * (len(cells) - 1)]
    return [
        textwrap.fill(
            cell,
            WIDTH,
            initial_indent=mark,
            subsequent_indent=" " * len(mark),
            break_on_hyphens=False,
            break_long_words=False,
        )
        for mark, cell in zip(marks, cells, strict=True)
    ]


def _plain(text: str) -> str:
    """Escape the markup of reStructuredText."""
    escaped = MARKUP.sub(r"\\\1", text)
    return f"\\{escaped}" if escaped == "-" else escaped  # a single "-" would start a list
