"""Claims judged: what was published, against the records of a run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.claims import validity
from offload.bench.records.record import PAIR, VISIT, Record
from offload.bench.stats import paired_test, replication, sequential
from offload.bench.stats.replication import NOT_COMPARABLE, UNRESOLVED
from offload.registry import catalog
from offload.suites import Case, Claim
from offload.suites._claim import FIGURES, RATE


@dataclass(frozen=True)
class Judged:
    """One claim with its verdict; `here` has the interval `low` to `high`. None is not known.

    `unit` is x for ratios of rates, x time and x memory for those of another `figure`, % for shares
    of requests, and /s for rates: of an audit `here` is the ceiling of what it published. `says` is
    what was claimed, and `run` the folder that it was judged by.
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
    says: str = ""
    run: str | None = None


def judge(
    suite: str,
    claim: Claim,
    records: Sequence[Record] | None,
    cases: Sequence[Case] | None = None,
) -> Judged:
    """Judge a claim by the records of one run of its suite; None is that there is no run.

    `cases` are all of the suite: of a case that is not among them nothing will ever be known.
    """
    one, other = (_of(case, records or ()) for case in (claim.one, claim.other))
    found = _ratio(claim, one, other)
    lacking = _missing(claim, one, other) if records is not None else "not measured here yet"
    word, reason = _verdict(claim, one, other, found, _unknown(suite, claim, cases) or lacking)
    told = [] if found.ratio is None else [*validity.of(one), *validity.of(other)]
    doubts = "".join(f"; {doubt}" for doubt in dict.fromkeys(told))
    return Judged(
        suite,
        claim.name,
        claim.ratio,
        found.ratio,
        found.low,
        found.high,
        word,
        reason + doubts,
        unit=f"x {FIGURES[claim.figure]}".rstrip(),
        figure=claim.figure,
        says=claim.says,
    )


def _of(case: Case, records: Sequence[Record]) -> list[Record]:
    """Give the records of a case, as it is or as quick measures it; the last of each round."""
    keys = (case.key, case.quick().key)
    own = [r for r in records if r.trial.kind != PAIR and r.key in keys]
    return list({(r.trial.kind, r.trial.round): r for r in own}.values())


def _ratio(claim: Claim, one: Sequence[Record], other: Sequence[Record]) -> paired_test.Verdict:
    """Compare the visits of the same rounds; without them, the one long run of each."""
    figures = {
        r.trial.round: value
        for r in other
        if (value := _figure(claim, r)) and r.trial.kind == VISIT
    }
    pairs = [
        (value, figures[r.trial.round])
        for r in one
        if r.trial.kind == VISIT and r.trial.round in figures and (value := _figure(claim, r))
    ]
    if not pairs:
        longs = [[v for r in own if (v := _figure(claim, r))] for own in (one, other)]
        pairs = [(longs[0][0], longs[1][0])] if all(longs) else []
    is_quick = any(r.trial.quick for r in one)
    return paired_test.compare(pairs, (sequential.QUICK if is_quick else sequential.NORMAL).level)


def _figure(claim: Claim, record: Record) -> float | None:
    return record.figure(claim.figure) or None


def _verdict(
    claim: Claim,
    one: Sequence[Record],
    other: Sequence[Record],
    found: paired_test.Verdict,
    lacking: str | None,
) -> tuple[str, str]:
    if claim.work is not None:
        return NOT_COMPARABLE, claim.work
    if lacking is not None:
        return UNRESOLVED, lacking
    if claim.differs is None and (difference := _difference(one, other)):
        return NOT_COMPARABLE, difference
    if found.low is None or found.high is None:
        return UNRESOLVED, "one run of each gives no interval"
    if bound := [r for r in (*one, *other) if _is_client_bound(r)]:
        return (
            UNRESOLVED,
            f"{bound[0].load.driver} was what bound the rate of {bound[0].case.server}",
        )
    asked = (claim.ratio, claim.alike, found.low, found.high)
    word = replication.word_of(*asked)
    return word, replication.reason_of(word, *asked)


def _unknown(suite: str, claim: Claim, cases: Sequence[Case] | None) -> str | None:
    """Say which case is not of the suite; None when both are, or it is not known."""
    for case in (claim.one, claim.other):
        if cases is not None and case not in cases:
            return f"{case.name} is not in CASES of suites/{suite}.py: add it"
    return None


def _missing(claim: Claim, one: Sequence[Record], other: Sequence[Record]) -> str | None:
    """Say what there are no figures of; None when both cases have some."""
    if not one and not other:
        return "not in this run"
    for case, own in ((claim.one, one), (claim.other, other)):
        if not own or own[-1].problem:
            return f"{case.name}: {own[-1].problem if own else 'not in this run'}"
    return None


def _difference(one: Sequence[Record], other: Sequence[Record]) -> str | None:
    """Say how the answers of two cases differ; None when their content is the same."""
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
    return f"the answers differ: {lengths}, {shown}"


def _is_stable(record: Record) -> bool:
    return bool(catalog.find_task(record.case.task).constants.get("STABLE", True))


def _is_client_bound(record: Record) -> bool:
    return record.trial.kind == VISIT and any(f.kind == "client-bound" for f in record.flags)
