"""Evaluate claims: compare published ratios with the records of a run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.claims import validity
from offload.engine import decisions
from offload.engine.decisions import DISTURBED, NOT_COMPARABLE, UNRESOLVED
from offload.engine.figures import Comparison, compare_windows, is_client_bound, rate_of
from offload.engine.record import LONG, WINDOW, Record, RunRecords
from offload.errors import UserError
from offload.registry import catalog
from offload.suites import Case, Claim
from offload.suites._claim import FIGURES, RATE


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
        warnings = [*validity.validity_warnings(one), *validity.validity_warnings(other)]
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
    return RunRecords(records).of_case(case.key, case.quick().key).last_attempts()


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
