"""The choice: which of the measured set-ups to deploy. The whole rule stands here.

A set-up must be safe and carry what is required. Of those that no other one dominates, and that
have at least NEAR of the best capacity (or carry the required rate), the choice is the one with the
least memory; where memory is the same, the one with the certainly largest capacity, then the
shortest p99, the fewest processes, the standard library's pool, a measured capacity of NEAR of the
best, loops before threads, and these before greenlets, the usual server, and a p99 that was
measured as short, though that is not certain. Once response times of some of these were measured,
the choice is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offload.studies.advise.evidence import LOOPS, POOL, SAME_P99, Evidence, Question, usual

NEAR = 0.9  # share of the best capacity that is enough, unless it is certainly missed
LEAST_NEAR = 0.85  # share that must have been measured, however uncertain it is
RESERVE = 0.8  # share of the capacity that a required rate may use
HALF = 0.5  # of the memory or of the p99 is certainly better
NO_WORSE = 0.95  # share of the capacity that is not worse
LOOP_S = 0.005  # s that a call may block a loop, on which every other request waits


@dataclass(frozen=True)
class Choice:
    """The chosen set-up, an equal one, and why others were left out (by their name).

    `missed` names what is required and not carried: "rate", "p99", "memory" or "connections"; then
    the choice is made as if it were not required. `rows` are the set-ups that are not dominated,
    the choice first.
    """

    best: Evidence
    tie: Evidence | None
    left_out: dict[str, str]
    missed: str | None
    rows: tuple[Evidence, ...]


def choose(question: Question, found: Sequence[Evidence], blocks_s: float) -> Choice | None:
    """Return the choice; None if no set-up works. `blocks_s` is how long a call blocks a loop."""
    left_out: dict[str, str] = {}
    missed = None

    def keep(those: list[Evidence], allowed: list[Evidence], why: str) -> list[Evidence]:
        left_out.update({each.setup.name: why for each in those if each not in allowed})
        return allowed

    every = sorted(found, key=lambda each: each.setup.name)  # equal rows: always the same one
    works = [each for each in every if each.problem is None and each.rates]
    works = keep(every, works, "fails under load")
    for name, meets in REQUIREMENTS.items():
        if meeting := [each for each in works if meets(each, question)]:
            works = keep(works, meeting, f"misses the required {name}")
        elif works:
            missed = missed or name
    if not works:
        return None
    free = [each for each in works if each.setup.kind != LOOPS]
    if blocks_s > LOOP_S and any(_is_near(each, _fastest(works)) for each in free):
        works = keep(works, free, "blocks its event loop")
    rows = [each for each in works if not any(dominates(other, each) for other in works)]
    rows = keep(works, rows, "dominated")
    enough = rows
    if question.rate is None or missed == "rate":
        enough = [each for each in rows if _is_near(each, _fastest(rows))]
    ordered = _by_preference([each for each in enough if each.latencies] or enough)
    ordered += [each for each in enough if each not in ordered]
    best = ordered[0]
    tie = next((each for each in ordered[1:] if are_same(best, each)), None)
    rest = sorted((e for e in rows if e is not best), key=lambda e: -(e.capacity or 0.0))
    return Choice(best, tie, left_out, missed, (best, *rest))


# What can be required. An unknown value misses it, except an unknown response time.
REQUIREMENTS: dict[str, Callable[[Evidence, Question], bool]] = {
    "memory": lambda e, q: q.memory_mib is None or (e.memory_mib or math.inf) <= q.memory_mib,
    "connections": lambda e, q: q.connections is None or (e.setup.slots or 0) <= q.connections,
    "rate": lambda e, q: RESERVE * (e.capacity or 0.0) >= (q.rate or 0.0),
    "p99": lambda e, q: q.p99_s is None or e.is_within(q.p99_s, q.rate),
}


def _fastest(those: Sequence[Evidence]) -> Evidence:
    return max(those, key=lambda each: each.capacity or 0.0)


def _is_near(each: Evidence, best: Evidence) -> bool:
    """Whether a set-up has measured, or may have, NEAR of the best capacity."""
    ratio = each.ratio(best) or (0.0, 0.0, 0.0)
    return each is best or (ratio[0] >= LEAST_NEAR and ratio[2] >= NEAR)


def _by_preference(those: Sequence[Evidence]) -> list[Evidence]:
    """Order set-ups: the least class of memory first, and in it the preferences of the rule."""
    remaining, ordered = [*those], []
    while remaining:
        least = min(remaining, key=lambda each: each.memory_mib or math.inf)
        group = [each for each in remaining if least.has_same_memory(each)]
        fastest = _fastest(group)
        equal = [e for e in group if e is fastest or not fastest.is_certainly_faster(e)]
        quick = [e for e in equal if not any(o.is_quicker(e, SAME_P99) for o in equal)]
        p99_s = min((each.p99.value for each in quick if each.p99), default=math.inf)
        best = min(quick, key=lambda each: _simplicity(each, fastest, SAME_P99 * p99_s))
        ordered.append(best)
        remaining.remove(best)
    return ordered


def _simplicity(
    each: Evidence, fastest: Evidence, p99_s: float
) -> tuple[int, bool, bool, int, int, bool, float]:
    """Return the key of the last preferences, after which the measured capacity decides.

    One that was measured as slower than NEAR is probably slower, although that is not certain. So
    is one with a p99 above `p99_s`.
    """
    setup, ratio = each.setup, each.ratio(fastest)
    slower = each is not fastest and (ratio is None or ratio[0] < NEAR)
    own_pool = setup.kind == POOL and setup.server != "processes"
    late = each.p99 is not None and each.p99.value > p99_s
    return setup.all_processes, own_pool, slower, *usual(setup), late, -(each.capacity or 0.0)


def are_same(one: Evidence, other: Evidence) -> bool:
    """Whether capacity, memory and response times of two set-ups do not differ."""
    if one.is_certainly_faster(other) or other.is_certainly_faster(one):
        return False
    if one.is_quicker(other, SAME_P99) or other.is_quicker(one, SAME_P99):
        return False
    return one.has_same_memory(other)


def dominates(one: Evidence, other: Evidence) -> bool:
    """Whether `one` is nowhere worse, and certainly better in capacity, memory or p99."""
    ratio = one.ratio(other)
    if one is other or ratio is None or ratio[0] < NO_WORSE:
        return False
    one_mib, other_mib = one.memory_mib, other.memory_mib
    if one_mib and other_mib and one_mib > other_mib and not one.has_same_memory(other):
        return False
    if other.is_quicker(one, SAME_P99):
        return False
    saves = not one.has_same_memory(other)
    return (
        one.is_certainly_faster(other)
        or bool(saves and one_mib and other_mib and one_mib <= HALF * other_mib)
        or one.is_quicker(other, 1 / HALF)
    )
