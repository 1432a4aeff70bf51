"""Majority claims: statements about most tests, evaluated by the claim about each test."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.claims.evaluate import ClaimVerdict
from offload.bench.stats.replication import DOES_NOT, HOLDS, NOT_COMPARABLE, UNRESOLVED
from offload.suites import Majority


def evaluate_majority(suite: str, one: Majority, found: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Evaluate a majority: it holds if more than half of its claims have a ratio above 1.

    Claims that are not comparable are ignored. The majority does not hold if at least half of the
    others have no ratio above 1; until one of the two is certain, it is unresolved.
    """
    own = [v for v in found if v.claim in one.of and v.verdict != NOT_COMPARABLE]
    known = [v for v in own if v.verdict != UNRESOLVED and v.low is not None]
    more = [v.claim for v in known if (v.low or 0.0) > 1]
    no_more = [v.claim for v in known if v.claim not in more]
    verdict = UNRESOLVED
    if 2 * len(more) > len(own):
        verdict = HOLDS
    elif own and 2 * len(no_more) >= len(own):
        verdict = DOES_NOT
    reason = f"more in {len(more)} of {len(own)} claims"
    if no_more:
        reason += f", no more in {'; '.join(no_more)}"
    if unknown := len(own) - len(known):
        reason += f", {unknown} not resolved"
    return ClaimVerdict(suite, one.name, None, None, None, None, verdict, reason, says=one.says)
