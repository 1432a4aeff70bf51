"""The choice: which of the measured set-ups to deploy. The whole rule stands here.

A set-up must be safe and carry what is required. Of those that no other one dominates, and that
have at least NEAR of the best capacity (or carry the required rate), the choice is the one with the
least memory; where memory is the same, the one with the largest capacity, then the shortest p99,
the fewest processes, and the standard library's pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offload.studies.advise.evidence import LOOPS, POOL, Evidence

CERTAIN = 1.1  # ratio of capacities beyond which the whole interval must be, to differ
NEAR = 0.9  # share of the best capacity that is enough
RESERVE = 0.8  # share of the capacity that a required rate may use
MEMORY, MEMORY_MIB = 1.1, 16.0  # the same memory: within this factor, or this difference
SAME_P99 = 1.5  # factor of response times within which they are the same
HALF = 0.5  # of the memory or of the p99 is certainly better
NO_WORSE = 0.95  # share of the capacity that is not worse
LOOP_S = 0.005  # s that a call may block a loop, on which every other request waits
MOST_FAILED = 0.01  # share of failed requests


@dataclass(frozen=True)
class Question:
    """What is required; None: nothing.

    `rate` in requests/s, `p99_s` in s, `memory_mib` in MiB. `connections` limits the calls in
    progress, `users` the concurrent requests. `isolate`: a crash or hang costs one call.
    """

    rate: float | None = None
    p99_s: float | None = None
    memory_mib: float | None = None
    connections: int | None = None
    users: int | None = None
    isolate: bool = False


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

    def keep(
        those: list[Evidence], is_kept: Callable[[Evidence], bool], why: str
    ) -> list[Evidence]:
        left_out.update({each.setup.name: why for each in those if not is_kept(each)})
        return [each for each in those if is_kept(each)]

    in_order = sorted(found, key=lambda each: each.setup.name)  # equal rows: always the same one
    works = keep(in_order, lambda e: e.problem is None and bool(e.rates), "fails under load")
    for name, carries in _requirements(question):
        if any(map(carries, works)):
            works = keep(works, carries, f"misses the required {name}")
        elif works:
            missed = missed or name
    if not works:
        return None
    free = [each for each in works if each.setup.kind != LOOPS]
    if blocks_s > LOOP_S and any(_is_near(each, _fastest(works)) for each in free):
        works = keep(works, lambda e: e.setup.kind != LOOPS, "blocks its event loop")
    rows = keep(works, lambda e: not any(dominates(o, e) for o in works), "dominated")
    enough = rows
    if question.rate is None or missed == "rate":
        enough = [each for each in rows if _is_near(each, _fastest(rows))]
    ordered = _by_preference(enough)
    best = ordered[0]
    tie = next((each for each in ordered[1:] if are_same(best, each)), None)
    rest = sorted((e for e in rows if e is not best), key=lambda e: -(e.capacity or 0.0))
    return Choice(best, tie, left_out, missed, (best, *rest))


def _requirements(question: Question) -> list[tuple[str, Callable[[Evidence], bool]]]:
    """Return what is required, and whether a set-up carries it; only unknown response times may."""
    most_mib, rate, p99_s = question.memory_mib, question.rate, question.p99_s
    most = question.connections
    found: list[tuple[str, Callable[[Evidence], bool]]] = []
    if most_mib is not None:
        found.append(("memory", lambda e: e.memory_mib is not None and e.memory_mib <= most_mib))
    if most is not None:
        found.append(("connections", lambda e: e.setup.slots is None or e.setup.slots <= most))
    if rate is not None:
        found.append(("rate", lambda e: RESERVE * (e.capacity or 0.0) >= rate))
    if p99_s is not None:
        found.append(("p99", lambda e: _is_within(e, question, p99_s)))
    return found


def _is_within(found: Evidence, question: Question, p99_s: float) -> bool:
    """Whether response times are within a limit at the required rate, or at the lowest one."""
    loads = [each for each in found.latencies if question.rate in (None, each.rate)][:1]
    return all(each.value <= p99_s and each.failed <= MOST_FAILED for each in loads)


def _fastest(those: Sequence[Evidence]) -> Evidence:
    return max(those, key=lambda each: each.capacity or 0.0)


def _is_near(each: Evidence, best: Evidence) -> bool:
    return each is best or (each.ratio(best) or (0.0, 0.0, 0.0))[0] >= NEAR


def _by_preference(those: Sequence[Evidence]) -> list[Evidence]:
    """Order set-ups: the least class of memory first, and in it the preferences of the rule."""
    remaining, ordered = [*those], []
    while remaining:
        least = min(remaining, key=lambda each: each.memory_mib or math.inf)
        group = [each for each in remaining if has_same_memory(least, each)]
        fastest = _fastest(group)
        equal = [e for e in group if e is fastest or not is_certainly_faster(fastest, e)]
        quickest_s = min((e.p99.value for e in equal if e.p99), default=math.inf)
        quick = [e for e in equal if e.p99 is None or e.p99.value <= SAME_P99 * quickest_s]
        best = min(quick, key=_simplicity)
        ordered.append(best)
        remaining.remove(best)
    return ordered


def _simplicity(each: Evidence) -> tuple[int, bool, float]:
    setup = each.setup
    own_pool = setup.kind == POOL and setup.server != "processes"
    return setup.all_processes, own_pool, -(each.capacity or 0.0)


def is_certainly_faster(one: Evidence, other: Evidence) -> bool:
    """Whether the whole interval of the ratio of the capacities is beyond CERTAIN."""
    ratio = one.ratio(other)
    return ratio is not None and ratio[1] > CERTAIN


def has_same_memory(one: Evidence, other: Evidence) -> bool:
    """Whether two set-ups need the same memory, or that of one is unknown."""
    if one.memory_mib is None or other.memory_mib is None:
        return True
    low, high = sorted((one.memory_mib, other.memory_mib))
    return high <= max(MEMORY * low, low + MEMORY_MIB)


def are_same(one: Evidence, other: Evidence) -> bool:
    """Whether capacity, memory and response times of two set-ups do not differ."""
    if is_certainly_faster(one, other) or is_certainly_faster(other, one):
        return False
    if one.p99 and other.p99:
        low, high = sorted((one.p99.value, other.p99.value))
        if high > SAME_P99 * low:
            return False
    return has_same_memory(one, other)


def dominates(one: Evidence, other: Evidence) -> bool:
    """Whether `one` is nowhere worse, and certainly better in capacity, memory or p99."""
    ratio = one.ratio(other)
    if one is other or ratio is None or ratio[0] < NO_WORSE:
        return False
    one_mib, other_mib = one.memory_mib, other.memory_mib
    if one_mib and other_mib and one_mib > other_mib and not has_same_memory(one, other):
        return False
    p99, other_p99 = (one.p99, other.p99) if one.p99 and other.p99 else (None, None)
    if p99 and other_p99 and p99.value > SAME_P99 * other_p99.value:
        return False
    saves = not has_same_memory(one, other)
    return (
        ratio[1] > CERTAIN
        or bool(saves and one_mib and other_mib and one_mib <= HALF * other_mib)
        or bool(p99 and other_p99 and p99.value <= HALF * other_p99.value)
    )
