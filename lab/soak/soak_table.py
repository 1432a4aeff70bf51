"""The table of a soak: requests, faults, and whether memory, descriptors and threads grow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from lab.soak.finding import FLAT, MOST_MB, Count, Finding
from lab.soak.trend import Trend
from offload.documents.text import TableLine, render_table

HEAD = ("Server", "Requests", "Faults", "Memory, MB/min", "Descriptors", "Threads", "Verdict")


def render(findings: Sequence[Finding]) -> str:
    """Render a row for each server."""
    lines = [
        TableLine(
            (
                each.server,
                f"{sum(each.statuses.values())}",
                f"{sum(each.faults.values())}",
                _trend(each.memory),
                _count(each.open_descriptors),
                _count(each.running_threads),
                each.verdict,
            ),
            _detail(each),
        )
        for each in findings
    ]
    return render_table(HEAD, lines)


def summary(findings: Sequence[Finding]) -> str:
    """Return the verdicts in one sentence."""
    flat = sum(each.verdict == FLAT for each in findings)
    others = [f"{each.server}: {each.verdict}" for each in findings if each.verdict != FLAT]
    return "; ".join(
        [f"{flat} of {len(findings)} servers are flat, below {MOST_MB:g} MB/min", *others]
    )


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings with their verdicts as a JSON list."""
    return json.dumps([{**asdict(each), "verdict": each.verdict} for each in findings], indent=2)


def _detail(found: Finding) -> str:
    parts = [
        f"responses: {_list_counts(found.statuses)}",
        f"faults: {_list_counts(found.faults)}",
    ]
    for name, count in (
        ("descriptors", found.open_descriptors),
        ("threads", found.running_threads),
    ):
        if count.verdict != FLAT:
            parts.append(f"{name} {_trend(count.per_minute)} per minute")
    return "; ".join(parts)


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _count(count: Count) -> str:
    return f"{count.before} to {count.after}"


def _trend(trend: Trend | None) -> str:
    if trend is None:
        return "unknown"
    return f"{trend.slope:+.2f} ({trend.low:+.2f} to {trend.high:+.2f})"
