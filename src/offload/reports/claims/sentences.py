"""What was claimed: the sentences, by who said them, where, and under which conditions."""

from __future__ import annotations

from collections.abc import Sequence

from offload.suites import Audit, Availability, Claim, Majority

TITLE = "What was claimed"


def rst(said: Sequence[tuple[str, Claim | Majority | Availability | Audit]]) -> str:
    """Lay the sentences out as reStructuredText, each with its name; given with their suites."""
    sources: dict[str, list[str]] = {}
    for suite, one in said:
        conditions = getattr(one, "conditions", "")
        source = f"{suite}: {one.who}, {one.where}" + (f" ({conditions})" if conditions else "")
        sources.setdefault(source, []).append(f"  * {one.name}: {one.says}")
    parts = ["\n".join([f"* {source}", "", *lines]) for source, lines in sources.items()]
    return "\n\n".join([f"{TITLE}\n{'-' * len(TITLE)}", *parts])
