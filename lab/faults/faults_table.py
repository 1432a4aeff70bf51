"""The table of the fault lab: fault, promise, and what each server did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from lab.faults.lab import ROWS, Finding
from offload.documents.text import TableLine, render_table, wrapped

HEAD = ("Server", "Promise")


def render(findings: Sequence[Finding]) -> str:
    """Render a table for each row of the lab."""
    return "\n\n".join(_table(name, own) for name, own in _by_row(findings))


def _table(name: str, findings: Sequence[Finding]) -> str:
    row = ROWS[name]
    title = wrapped(f"{name}: {row.fault}. Promise: {row.promise}.")
    lines = [TableLine((each.server, _status(each)), _detail(each)) for each in findings]
    return f"{title}\n\n{render_table(HEAD, lines)}"


def _status(found: Finding) -> str:
    if found.is_kept is None:
        return "not available"
    if found.promised:
        return "kept" if found.is_kept else "BROKEN"
    return "kept (not promised)" if found.is_kept else "not promised"


def _detail(found: Finding) -> str:
    return "; ".join(part for part in (found.figure, ROWS[found.row].reason(found.server)) if part)


def summary(findings: Sequence[Finding]) -> str:
    """Return how many promises were kept, in one sentence; name the others."""
    promised = [each for each in findings if each.promised]
    parts = [f"{sum(each.is_kept is True for each in promised)} of {len(promised)} promises kept"]
    for word, is_kept in (("broken", False), ("not available", None)):
        named = [f"{each.row} of {each.server}" for each in promised if each.is_kept is is_kept]
        parts += [f"{word}: {', '.join(named)}"] if named else []
    return "; ".join(parts)


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as a JSON list."""
    return json.dumps([asdict(each) for each in findings], indent=2)


def _by_row(findings: Sequence[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    for name in dict.fromkeys(each.row for each in findings):
        yield name, [each for each in findings if each.row == name]
