"""The table of the fault lab: fault, promise, and what each server did."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from offload.bench.faults.lab import ROWS, Finding

WIDTH = 100
INDENT = 4


def text(findings: Sequence[Finding]) -> str:
    """Render the findings row by row."""
    return "\n\n".join("\n".join(_row(name, own)) for name, own in _by_row(findings))


def _row(name: str, findings: Sequence[Finding]) -> Iterator[str]:
    row = ROWS[name]
    yield f"{name}  {row.fault}"
    yield from _wrapped(f"promise: {row.promise}", INDENT)
    width = max(len(each.server) for each in findings) + 2
    status = max(len(_status(each)) for each in findings) + 2
    for each in findings:
        head = f"{'':{INDENT}}{each.server:{width}}{_status(each):{status}}"
        lines = [*_wrapped(_words(each), len(head))] or [""]
        yield f"{head}{lines[0].strip()}".rstrip()
        yield from lines[1:]


def _wrapped(words: str, indent: int) -> list[str]:
    space = " " * indent
    return textwrap.wrap(words, WIDTH, initial_indent=space, subsequent_indent=space)


def _status(found: Finding) -> str:
    if found.is_kept is None:
        return "not available"
    if found.promised:
        return "kept" if found.is_kept else "BROKEN"
    return "kept (not promised)" if found.is_kept else "not promised"


def _words(found: Finding) -> str:
    return "; ".join(part for part in (found.figure, found.reason) if part)


def summary(findings: Sequence[Finding]) -> str:
    """Return how many promises were kept, in one sentence."""
    promised = [each for each in findings if each.promised]
    broken = [f"{each.row} of {each.server}" for each in promised if each.is_broken]
    kept = f"{len(promised) - len(broken)} of {len(promised)} promises kept"
    return f"{kept}; broken: {', '.join(broken)}" if broken else kept


def rst(findings: Sequence[Finding]) -> str:
    """Render the findings as list tables, one for each row."""
    return "\n".join("\n".join(_rst_row(name, own)) for name, own in _by_row(findings))


def _rst_row(name: str, findings: Sequence[Finding]) -> Iterator[str]:
    row = ROWS[name]
    yield f"**{name}: {row.fault}.** Promise: {row.promise}."
    yield ""
    yield ".. list-table::"
    yield "   :header-rows: 1"
    yield "   :widths: 20 15 65"
    yield ""
    for cells in (("Server", "Promise", "Figures"), *map(_cells, findings)):
        for number, cell in enumerate(cells):
            first = "   * - " if number == 0 else "     - "
            wrapped = textwrap.wrap(
                cell, WIDTH + 6, initial_indent=first, subsequent_indent=" " * len(first)
            )
            yield from wrapped or [first.rstrip()]
    yield ""


def _cells(found: Finding) -> tuple[str, str, str]:
    return f"``{found.server}``", _status(found).lower(), _words(found)


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as a JSON list."""
    return json.dumps([asdict(each) for each in findings], indent=2)


def _by_row(findings: Sequence[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    for name in dict.fromkeys(each.row for each in findings):
        yield name, [each for each in findings if each.row == name]
