"""Audits: whether published figures can be true of the conditions published with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offload.bench.claims.evaluate import Judged
from offload.bench.claims.validity import ABOVE
from offload.bench.stats import operational_laws
from offload.bench.stats.replication import DOES_NOT, HOLDS, IN_PART, NOT_COMPARABLE, UNRESOLVED
from offload.suites import Audit, Figure

MOST = 64  # processes that are tried
LITTLE = 0.1  # by which published rate x mean may differ from the users


@dataclass(frozen=True)
class _Bound:
    figure: Figure
    ceiling: float

    @property
    def reached(self) -> float:
        return self.figure.rate / self.ceiling


def judge(suite: str, one: Audit) -> Judged:
    """Judge published figures by arithmetic: rate <= processes x slots / service time.

    Then by Little's law, users = rate x mean, and by the lengths of what was answered. Without a
    service time or a mean there is nothing to judge by.
    """
    bounds = _bounds(one, one.processes)
    worst = max(bounds, key=lambda bound: bound.reached, default=None)
    excess = [*_excess(one, bounds)] if worst is not None and worst.reached > ABOVE else []
    more, unseen, lengths = [*_more(one)], [*_unseen(one)], [*_lengths(one)]
    words = [*excess, *more, *unseen, *lengths]
    if bounds and not excess:
        words = ["no rate is above what its conditions allow", *words]
    if not bounds and not any(_seen(one)):
        verdict, otherwise = UNRESOLVED, "no row has a service time or a mean"
    else:
        verdict = IN_PART if unseen else HOLDS
        otherwise = f"rate x mean is about {one.users} users in every row"
    if excess or more:
        verdict = DOES_NOT
    elif lengths:
        verdict = NOT_COMPARABLE
    return Judged(
        suite,
        one.name,
        worst.figure.rate if worst else None,
        worst.ceiling if worst else None,
        None,
        None,
        verdict,
        "; ".join(words) or otherwise,
        "/s",
        says=one.says,
    )


def _bounds(one: Audit, processes: int) -> list[_Bound]:
    found = []
    for figure in one.figures:
        slots = None if figure.slots is None else figure.slots * processes
        known = operational_laws.ceilings(
            workers=slots, users=one.users, service_s=figure.service_s
        )
        found += [_Bound(figure, ceiling.rate) for ceiling in known[:1]]
    return found


def _excess(one: Audit, bounds: list[_Bound]) -> Iterator[str]:
    for bound in bounds:
        if bound.reached > ABOVE:
            figure = bound.figure
            sum_ = f"{one.processes} x {figure.slots} / {figure.service_s:g} s"
            yield f"{figure.name} {figure.rate:g}/s exceeds {sum_} = {bound.ceiling:g}/s"
    fits = (n for n in range(1, MOST + 1) if _fits(one, n))
    least = next(fits, None)
    yield "no number of processes fits" if least is None else f"{least} processes fit every row"


def _fits(one: Audit, processes: int) -> bool:
    return all(bound.reached <= ABOVE for bound in _bounds(one, processes))


def _more(one: Audit) -> Iterator[str]:
    """Name figures whose rate x mean is of more users than there can have been."""
    for figure, seen in _seen(one):
        if seen > (1 + LITTLE) * one.users:
            yield f"{figure.name}: rate x mean is {seen:.1f} users, not {one.users}"


def _unseen(one: Audit) -> Iterator[str]:
    """Name figures whose rate x mean is of fewer: the others waited elsewhere."""
    for figure, seen in _seen(one):
        if seen < (1 - LITTLE) * one.users:
            yield f"{figure.name}: rate x mean is {seen:.1f} of {one.users} users"


def _lengths(one: Audit) -> Iterator[str]:
    """Name figures whose answers were of other lengths than the first one's."""
    known = [figure for figure in one.figures if figure.body_bytes]
    for figure in known[1:]:
        first = known[0]
        if figure.body_bytes != first.body_bytes:
            times = (figure.body_bytes or 0) / (first.body_bytes or 1)
            lengths = f"{figure.body_bytes} bytes, {first.name} {first.body_bytes}"
            yield f"{figure.name} answered {lengths}: {times:.1f} times as many, not the same work"


def _seen(one: Audit) -> Iterator[tuple[Figure, float]]:
    """Give the users that each figure tells of, by Little's law."""
    for figure in one.figures:
        if figure.mean_s is not None:
            yield figure, figure.rate * figure.mean_s
