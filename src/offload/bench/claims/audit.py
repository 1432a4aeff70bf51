"""Audits: check whether published figures are possible under their published conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offload.bench.analysis.capacity import ABOVE
from offload.bench.claims.evaluate import ClaimVerdict
from offload.engine.decisions import DOES_NOT, HOLDS, IN_PART, NOT_COMPARABLE, UNRESOLVED
from offload.engine.figures import USERS, ceilings
from offload.suites import Audit, Figure

MAX_PROCESSES = 64  # the highest number of processes that is tried
LITTLE_TOLERANCE = 0.1  # relative difference between published rate x mean and users


@dataclass(frozen=True)
class _Bound:
    figure: Figure
    ceiling: float
    kind: str

    @property
    def reached(self) -> float:
        return self.figure.rate / self.ceiling


def audit_figures(suite: str, one: Audit) -> ClaimVerdict:
    """Check published figures by arithmetic: rate <= processes x slots / service time.

    Check also Little's law, users = rate x mean response time, and that all responses have the same
    length. The verdict is unresolved if no figure has a service time or a mean response time.
    """
    bounds = _bounds(one, one.processes)
    worst = max(bounds, key=lambda bound: bound.reached, default=None)
    excess = (
        [*_exceeded_ceilings(one, bounds)] if worst is not None and worst.reached > ABOVE else []
    )
    more, fewer, lengths = [*_more_users(one)], [*_fewer_users(one)], [*_lengths(one)]
    reasons = [*excess, *more, *fewer, *lengths]
    if bounds and not excess:
        reasons = ["no rate is above what its conditions allow", *reasons]
    if not bounds and not any(_users_by_little(one)):
        verdict, otherwise = UNRESOLVED, "no row has a service time or a mean"
    else:
        verdict = IN_PART if fewer else HOLDS
        otherwise = f"rate x mean is about {one.users} users in every row"
    if excess or more:
        verdict = DOES_NOT
    elif lengths:
        verdict = NOT_COMPARABLE
    return ClaimVerdict(
        suite,
        one.name,
        worst.figure.rate if worst else None,
        worst.ceiling if worst else None,
        None,
        None,
        verdict,
        "; ".join(reasons) or otherwise,
        "/s",
        statement=one.statement,
    )


def _bounds(one: Audit, processes: int) -> list[_Bound]:
    found = []
    for figure in one.figures:
        slots = None if figure.slots is None else figure.slots * processes
        known = ceilings(workers=slots, users=one.users, service_s=figure.service_s)
        found += [_Bound(figure, ceiling.rate, ceiling.kind) for ceiling in known[:1]]
    return found


def _exceeded_ceilings(one: Audit, bounds: list[_Bound]) -> Iterator[str]:
    for bound in bounds:
        if bound.reached > ABOVE:
            figure = bound.figure
            ceiling = f"{one.users} users / {figure.service_s:g} s"
            if bound.kind != USERS:
                ceiling = f"{one.processes} x {figure.slots} / {figure.service_s:g} s"
            yield f"{figure.name} {figure.rate:g}/s exceeds {ceiling} = {bound.ceiling:g}/s"
    fits = (n for n in range(1, MAX_PROCESSES + 1) if _fits(one, n))
    fewest = next(fits, None)
    yield "no number of processes fits" if fewest is None else f"{fewest} processes fit every row"


def _fits(one: Audit, processes: int) -> bool:
    return all(bound.reached <= ABOVE for bound in _bounds(one, processes))


def _more_users(one: Audit) -> Iterator[str]:
    """Report figures whose rate x mean exceeds the number of users."""
    for figure, users in _users_by_little(one):
        if users > (1 + LITTLE_TOLERANCE) * one.users:
            yield f"{figure.name}: rate x mean is {users:.1f} users, not {one.users}"


def _fewer_users(one: Audit) -> Iterator[str]:
    """Report figures whose rate x mean is below the number of users: some were not served."""
    for figure, users in _users_by_little(one):
        if users < (1 - LITTLE_TOLERANCE) * one.users:
            yield f"{figure.name}: rate x mean is {users:.1f} of {one.users} users"


def _lengths(one: Audit) -> Iterator[str]:
    """Report figures whose responses differ in length from those of the first figure."""
    known = [figure for figure in one.figures if figure.body_bytes]
    for figure in known[1:]:
        first = known[0]
        if figure.body_bytes != first.body_bytes:
            times = (figure.body_bytes or 0) / (first.body_bytes or 1)
            lengths = f"{figure.body_bytes} bytes, {first.name} {first.body_bytes}"
            yield f"{figure.name} answered {lengths}: {times:.1f} times as many, not the same work"


def _users_by_little(one: Audit) -> Iterator[tuple[Figure, float]]:
    """Return the number of users of each figure by Little's law: rate x mean response time."""
    for figure in one.figures:
        if figure.mean_s is not None:
            yield figure, figure.rate * figure.mean_s
