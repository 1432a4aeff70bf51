"""Majorities: a sentence on most tests, judged by the claims about each of them."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.claims.evaluate import Judged
from offload.bench.stats.replication import DOES_NOT, HOLDS, NOT_COMPARABLE, UNRESOLVED
from offload.suites import Majority


def judge(suite: str, one: Majority, found: Sequence[Judged]) -> Judged:
    """Judge a majority by the claims that it names: it holds when more than half have more.

    Those that cannot be compared are left out; it does not hold when half of the others or more
    have no more, and is unresolved while neither is known.
    """
    own = [j for j in found if j.claim in one.of and j.verdict != NOT_COMPARABLE]
    known = [j for j in own if j.verdict != UNRESOLVED and j.low is not None]
    more = [j.claim for j in known if (j.low or 0.0) > 1]
    no_more = [j.claim for j in known if j.claim not in more]
    word = UNRESOLVED
    if 2 * len(more) > len(own):
        word = HOLDS
    elif own and 2 * len(no_more) >= len(own):
        word = DOES_NOT
    reason = f"more in {len(more)} of {len(own)} claims"
    if no_more:
        reason += f", no more in {'; '.join(no_more)}"
    if unknown := len(own) - len(known):
        reason += f", {unknown} not resolved"
    return Judged(suite, one.name, None, None, None, None, word, reason, says=one.says)
