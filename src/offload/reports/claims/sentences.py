"""The published claims as sentences, grouped by author, source and conditions."""

from __future__ import annotations

from collections.abc import Sequence

from offload.suites import Audit, Availability, Claim

TITLE = "Claims and sources"


def rst(claims: Sequence[tuple[str, Claim | Availability | Audit]]) -> str:
    """Render (suite, claim) pairs as reStructuredText, each claim with its name."""
    sources: dict[str, list[str]] = {}
    for suite, one in claims:
        conditions = getattr(one, "conditions", "")
        source = f"{suite}: {one.who}, {one.where}" + (f" ({conditions})" if conditions else "")
        sources.setdefault(source, []).append(f"  * {one.name}: {one.statement}")
    parts = ["\n".join([f"* {source}", "", *lines]) for source, lines in sources.items()]
    return "\n\n".join([f"{TITLE}\n{'-' * len(TITLE)}", *parts])
