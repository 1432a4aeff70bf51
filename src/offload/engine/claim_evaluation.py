"""Claims of a suite: published ratios, shares and rates, judged by the records of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from offload.engine import decisions, figures, intervals
from offload.engine.decisions import DISTURBED, DOES_NOT, HOLDS, IN_PART, NOT_COMPARABLE, UNRESOLVED
from offload.engine.figures import (
    ABOVE_CEILING,
    USERS,
    Comparison,
    ceilings,
    compare_windows,
    find_disturbance,
    is_client_bound,
    rate_of,
)
from offload.engine.record import LONG, WINDOW, Record, RunRecords
from offload.errors import UserError
from offload.registry import catalog
from offload.suites import FIGURES, RATE, Audit, Availability, Case, Claim, Figure, load_suite

KINDS = ("CLAIMS", "AVAILABILITIES", "AUDITS")


def evaluate_suite(
    suite: str, records: Sequence[Record] | None, run: str | None = None
) -> list[ClaimVerdict]:
    """Evaluate a suite's audits, and its claims by the records of one run (None: no run)."""
    cases = items(suite, "CASES")
    found = [evaluate_claim(suite, one, records, cases) for one in items(suite, "CLAIMS")]
    found += [evaluate_availability(suite, one, records) for one in items(suite, "AVAILABILITIES")]
    found = [replace(one, run=run) for one in found]
    return found + [audit_figures(suite, one) for one in items(suite, "AUDITS")]


def published_claims(suites: Sequence[str]) -> list[tuple[str, Any]]:
    """Return all published claims, each with its suite."""
    return [(suite, one) for suite in suites for kind in KINDS for one in items(suite, kind)]


def items(suite: str, what: str) -> Sequence[Any]:
    """Return a suite's CASES or one of KINDS; empty if it has none."""
    found: Sequence[Any] = getattr(load_suite(suite), what, ())
    return found


# A claim: published ratios, compared with the records of a run on this machine


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on one claim; `here` is the measured value with its interval `low` to `high`.

    `unit` is x for ratios of rates, "x time" and "x memory" for ratios of another `figure`, % for
    shares of requests and /s for rates. In an audit, `here` is the highest rate that arithmetic
    allows. `statement` is the claim as a sentence, and `run` the folder of the records. Unknown
    values are None.
    """

    suite: str
    claim: str
    published: float | None
    here: float | None
    low: float | None
    high: float | None
    verdict: str
    reason: str
    unit: str = "x"
    figure: str = RATE
    statement: str = ""
    run: str | None = None


def evaluate_claim(
    suite: str,
    claim: Claim,
    records: Sequence[Record] | None,
    cases: Sequence[Case] | None = None,
) -> ClaimVerdict:
    """Evaluate a claim by the `records` of one run of its suite; `records` is None without a run.

    `cases` are all cases of the suite; the verdict on a claim about another case is unresolved.
    """
    one, other = (_case_records(case, records or ()) for case in (claim.one, claim.other))
    compared = _compare(claim, one, other)
    found = compared.verdict
    missing = _missing(claim, one, other) if records is not None else "not measured here yet"
    missing = _unknown(suite, claim, cases) or missing
    verdict, reason = _verdict(claim, one, other, compared, missing)
    warnings: list[str] = []
    if found.ratio is not None and compared.disturbed is None:
        warnings = [*validity_warnings(one), *validity_warnings(other)]
    suffix = "".join(f"; {warning}" for warning in dict.fromkeys(warnings))
    return ClaimVerdict(
        suite,
        claim.name,
        claim.ratio,
        found.ratio,
        found.low,
        found.high,
        verdict,
        reason + suffix,
        unit=f"x {FIGURES[claim.figure]}".rstrip(),
        figure=claim.figure,
        statement=claim.statement,
    )


def _case_records(case: Case, records: Sequence[Record]) -> list[Record]:
    """Return the records of a case and its quick variant, without retried attempts."""
    return RunRecords(records).select_case(case.key, case.quick().key).last_attempts()


def _compare(claim: Claim, one: Sequence[Record], other: Sequence[Record]) -> Comparison:
    """Compare the windows of two cases; without windows, their long runs."""
    windows = [[r for r in own if r.trial.kind == WINDOW] for own in (one, other)]
    figure = rate_of if claim.figure == RATE else lambda record: _figure(claim, record)
    found = compare_windows(windows[0], windows[1], figure)
    if found.verdict.pairs:
        return found
    longs = [
        [v for r in own if r.trial.kind == LONG and (v := _figure(claim, r))]
        for own in (one, other)
    ]
    pairs = [(longs[0][-1], longs[1][-1])] if all(longs) else []
    return Comparison(decisions.compare_pairs(pairs))


def _figure(claim: Claim, record: Record) -> float | None:
    return record.figure(claim.figure) or None


def _verdict(
    claim: Claim,
    one: Sequence[Record],
    other: Sequence[Record],
    compared: Comparison,
    missing: str | None,
) -> tuple[str, str]:
    if claim.work is not None:
        return NOT_COMPARABLE, claim.work
    if missing is not None:
        return UNRESOLVED, missing
    if claim.differs is None and (difference := _difference(one, other)):
        return NOT_COMPARABLE, difference
    return _replication(claim, one, other, compared)


def _replication(
    claim: Claim, one: Sequence[Record], other: Sequence[Record], compared: Comparison
) -> tuple[str, str]:
    found = compared.verdict
    if found.low is None or found.high is None:
        return UNRESOLVED, "one run of each has no interval"
    if compared.disturbed is not None:
        return DISTURBED, f"{compared.disturbed.message}: {compared.disturbed.remedy}"
    for own in (one, other):
        if is_client_bound([r for r in own if r.trial.kind == WINDOW]):
            tool = own[-1].load.driver
            return UNRESOLVED, f"{tool} limited the rate of {own[-1].case.server}"
    values = (claim.ratio, claim.alike, found.low, found.high)
    verdict = decisions.classify_replication(*values)
    return verdict, decisions.explain_replication(verdict, *values)


def _unknown(suite: str, claim: Claim, cases: Sequence[Case] | None) -> str | None:
    """Return a message if a case of the claim is missing from the suite, else None."""
    for case in (claim.one, claim.other):
        if cases is not None and case not in cases:
            return f"{case.name} is not in CASES of suites/{suite}.py: add it"
    return None


def _missing(claim: Claim, one: Sequence[Record], other: Sequence[Record]) -> str | None:
    """Return a message if a case of the claim has no figures, else None."""
    if not one and not other:
        return "not in this run"
    for case, own in ((claim.one, one), (claim.other, other)):
        if not own or own[-1].problem:
            return f"{case.name}: {own[-1].problem if own else 'not in this run'}"
    return None


def _difference(one: Sequence[Record], other: Sequence[Record]) -> str | None:
    """Return the difference of the responses of two cases; None if their content is equal."""
    firsts = [next((r for r in own if r.baseline.body_sha256), None) for own in (one, other)]
    a, b = firsts
    if a is None or b is None or not all(_is_stable(r) for r in (a, b)):
        return None
    if a.baseline.content is not None and b.baseline.content is not None:
        same, shown = (
            a.baseline.content == b.baseline.content,
            f"{a.baseline.content[:60]!r} against {b.baseline.content[:60]!r}",
        )
    else:
        same, shown = a.baseline.body_sha256 == b.baseline.body_sha256, "other bytes"
    if same:
        return None
    lengths = f"{a.baseline.body_bytes} against {b.baseline.body_bytes} bytes"
    return f"the responses differ: {lengths}, {shown}"


def _is_stable(record: Record) -> bool:
    try:
        return catalog.has_constant_bodies(record.case.task, record.case.path)
    except UserError:  # the task was measured elsewhere, or has been removed
        return False


# Warnings on the records of a claim: disturbed loads, impossible figures


LITTLE_TOLERANCE = 0.05  # difference between rate x mean / users and 1


def validity_warnings(own: Sequence[Record]) -> list[str]:
    """Return at most one warning: the loads were disturbed, or a figure is impossible.

    A rate must not exceed users or slots / service time, and rate x mean must be about the number
    of users. In a short window they also differ because of the requests that started before it or
    ended after it, so a figure is reported if more than half of the windows have the finding.
    """
    if (flag := find_disturbance(own, [])) is not None:
        return [str(flag)]
    windows = [
        record
        for record in own
        if record.trial.kind == WINDOW
        and record.result.rate
        and record.result.little_ratio is not None
    ]
    for find in (_above_ceiling, _apart_from_users):
        found = [words for record in windows if (words := find(record, own))]
        if len(found) > len(windows) / 2:
            return found[-1:]
    return []


def _above_ceiling(record: Record, own: Sequence[Record]) -> str | None:
    ceiling = figures.exceeded_ceiling(record, own)
    if ceiling is None:
        return None
    return f"{record.case.task} is above its {ceiling.kind} ceiling of {ceiling.rate:.2f}/s"


def _apart_from_users(record: Record, _: Sequence[Record]) -> str | None:
    ratio = record.result.little_ratio
    if ratio is None or abs(ratio - 1) <= LITTLE_TOLERANCE:
        return None
    return f"rate x mean / users of {record.case.server} is {ratio:.2f}, not 1"


# An availability claim: the share of completed requests, compared with the published share


PERCENT = " %"


def evaluate_availability(
    suite: str, one: Availability, records: Sequence[Record] | None
) -> ClaimVerdict:
    """Evaluate an availability claim by the newest long run of its case; quick runs are too short.

    The exact binomial interval assumes that requests fail independently, which is wrong if users
    starve together. The claim holds if the interval contains the published share or is below it. It
    holds in part if fewer requests fail, and does not hold if none fails in a long enough run.
    """
    keys = (LONG, one.case.key, False)
    runs = [
        r
        for r in records or ()
        if (r.trial.kind, r.key, r.trial.quick) == keys and r.result.completed is not None
    ]
    completed = runs[-1].result.completed or 0 if runs else 0
    finished = completed + (runs[-1].result.failures or 0 if runs else 0)
    low, high = intervals.binomial_interval(completed, finished) if finished else (None, None)
    verdict, reason = _availability_verdict(one, records, low, high)
    return ClaimVerdict(
        suite,
        one.name,
        100 * one.share,
        100 * completed / finished if finished else None,
        None if low is None else 100 * low,
        None if high is None else 100 * high,
        verdict,
        reason,
        unit=PERCENT,
        figure="availability",
        statement=one.statement,
    )


def _availability_verdict(
    one: Availability, records: Sequence[Record] | None, low: float | None, high: float | None
) -> tuple[str, str]:
    if one.work is not None:
        return NOT_COMPARABLE, one.work
    if low is None or high is None:
        absent = "only a run without quick is long enough"
        return UNRESOLVED, "not measured here yet" if records is None else absent
    if high == 1:  # none failed
        too_few = low <= one.share
        return (
            (UNRESOLVED, "too few requests for a verdict")
            if too_few
            else (DOES_NOT, "none fails here")
        )
    if low > one.share:
        return IN_PART, "fewer fail here"
    return HOLDS, "as published" if one.share <= high else "more fail here"


# An audit: whether published figures are possible under their published conditions


MAX_PROCESSES = 64  # the highest number of processes that is tried
AUDIT_TOLERANCE = 0.1  # relative difference between published rate x mean and users


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
        [*_exceeded_ceilings(one, bounds)]
        if worst is not None and worst.reached > ABOVE_CEILING
        else []
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
        if bound.reached > ABOVE_CEILING:
            figure = bound.figure
            ceiling = f"{one.users} users / {figure.service_s:g} s"
            if bound.kind != USERS:
                ceiling = f"{one.processes} x {figure.slots} / {figure.service_s:g} s"
            yield f"{figure.name} {figure.rate:g}/s exceeds {ceiling} = {bound.ceiling:g}/s"
    fits = (n for n in range(1, MAX_PROCESSES + 1) if _fits(one, n))
    fewest = next(fits, None)
    yield "no number of processes fits" if fewest is None else f"{fewest} processes fit every row"


def _fits(one: Audit, processes: int) -> bool:
    return all(bound.reached <= ABOVE_CEILING for bound in _bounds(one, processes))


def _more_users(one: Audit) -> Iterator[str]:
    """Report figures whose rate x mean exceeds the number of users."""
    for figure, users in _users_by_little(one):
        if users > (1 + AUDIT_TOLERANCE) * one.users:
            yield f"{figure.name}: rate x mean is {users:.1f} users, not {one.users}"


def _fewer_users(one: Audit) -> Iterator[str]:
    """Report figures whose rate x mean is below the number of users: some were not served."""
    for figure, users in _users_by_little(one):
        if users < (1 - AUDIT_TOLERANCE) * one.users:
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
