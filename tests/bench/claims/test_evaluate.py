"""Claims are evaluated by windows of common rounds, audits by published figures alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.engine import claim_evaluation
from offload.engine.decisions import DISTURBED, DOES_NOT, HOLDS, IN_PART, NOT_COMPARABLE, UNRESOLVED
from offload.engine.figures import ABOVE_CEILING
from offload.engine.record import LONG, WINDOW, Record
from offload.suites import Audit, Case, Claim, Figure, Request
from tests.records import changed, new_record

ONE = Case("loop", "sleep_sync")
OTHER = Case("threads", "sleep_sync", request=Request("/x"))
CLAIM = Claim("four", "who", "where", "threads serve four at once", ONE, OTHER, 4.0, conditions="")


def windows(case: Case, *rates: float, **changes: Any) -> list[Record]:
    made = changed(new_record(case, "run", None), kind=WINDOW, body_sha256="a", **changes)
    return [changed(made, round=n, rate=rate) for n, rate in enumerate(rates, start=1)]


def verdict_on(*records: list[Record], claim: Claim = CLAIM) -> claim_evaluation.ClaimVerdict:
    return claim_evaluation.evaluate_claim(
        "a_suite", claim, [record for own in records for record in own]
    )


def test_windows_of_the_same_rounds_are_compared() -> None:
    found = verdict_on(
        windows(ONE, 3.5, 3.6, 3.4, 3.5, 3.5), windows(OTHER, 14.0, 14.4, 13.6, 14.0, 14.0)
    )
    assert (found.here, found.verdict) == (pytest.approx(4.0), HOLDS)
    assert found.low is not None and found.high is not None
    assert found.low <= 4.0 <= found.high


def test_a_smaller_difference_holds_in_part() -> None:
    found = verdict_on(windows(ONE, 3.5, 3.5, 3.5), windows(OTHER, 7.0, 7.1, 7.0))
    assert (found.verdict, found.reason) == (IN_PART, "the same direction, a smaller difference")


def test_other_answers_are_not_comparable_unless_declared() -> None:
    records = (
        windows(ONE, 3.5, 3.5, 3.5, body_bytes=974, content="10 rows"),
        windows(OTHER, 14.0, 14.1, 14.0, body_bytes=47489, content="500 rows"),
    )
    found = verdict_on(*records)
    assert found.verdict == NOT_COMPARABLE
    assert (
        found.reason
        == "the responses differ: 974 against 47489 bytes, '10 rows' against '500 rows'"
    )
    assert verdict_on(*records, claim=replace(CLAIM, differs="by design")).verdict == HOLDS


def test_the_same_content_in_other_words_is_comparable() -> None:
    same = windows(ONE, 3.5, 3.5, 3.5, content="x"), windows(OTHER, 14.0, 14.1, 14.0, content="x")
    other_bytes = [changed(record, body_sha256="b") for record in same[1]]
    assert verdict_on(same[0], other_bytes).verdict == HOLDS


def test_published_work_that_was_not_the_same_is_reported() -> None:
    found = verdict_on(claim=replace(CLAIM, work="one joined, the other asked 500 times"))
    assert (found.verdict, found.reason) == (
        NOT_COMPARABLE,
        "one joined, the other asked 500 times",
    )


def test_a_claim_that_was_not_measured_is_unresolved() -> None:
    assert claim_evaluation.evaluate_claim("a_suite", CLAIM, None).reason == "not measured here yet"
    assert verdict_on().reason == "not in this run"
    assert "3/sleep_sync GET /x: not in this run" in verdict_on(windows(ONE, 3.5)).reason
    away = windows(OTHER, 1.0, problem="not available: threads needs x: make suites")
    found = verdict_on(windows(ONE, 3.5), away)
    assert (found.verdict, "make suites" in found.reason) == (UNRESOLVED, True)


def test_a_case_that_its_suite_does_not_have_is_named() -> None:
    for records in (None, windows(OTHER, 14.0)):
        found = claim_evaluation.evaluate_claim("a_suite", CLAIM, records, [OTHER])
        assert found.verdict == UNRESOLVED
        assert found.reason == "2/sleep_sync is not in CASES of suites/a_suite.py: add it"
    assert (
        claim_evaluation.evaluate_claim("a_suite", CLAIM, None, [ONE, OTHER]).reason
        == "not measured here yet"
    )


def test_one_long_run_each_has_a_ratio_and_no_interval() -> None:
    longs = [changed(r[0], kind=LONG, round=0) for r in (windows(ONE, 3.5), windows(OTHER, 14.0))]
    found = verdict_on(longs)
    assert (found.here, found.low, found.verdict) == (pytest.approx(4.0), None, UNRESOLVED)


def test_quick_windows_of_a_case_that_quick_changes_are_found() -> None:
    one = replace(ONE, in_quick={"task": "sleep_short_sync"})
    claim = replace(CLAIM, one=one)
    found = verdict_on(
        windows(one.quick(), 3.5, 3.5, 3.5), windows(OTHER, 14.0, 14.0, 14.1), claim=claim
    )
    assert found.verdict == HOLDS


def test_a_claim_may_be_about_another_figure_than_the_rate() -> None:
    claim = replace(CLAIM, figure="response_p50_s", ratio=0.5)
    records = [changed(r, response_p50_s=1.0) for r in windows(ONE, 1.0, 1.0, 1.0)]
    records += [changed(r, response_p50_s=0.5) for r in windows(OTHER, 1.0, 1.0, 1.0)]
    found = verdict_on(records, claim=claim)
    assert (found.here, found.verdict) == (0.5, HOLDS)
    assert (found.unit, found.figure, found.statement) == (
        "x time",
        "response_p50_s",
        CLAIM.statement,
    )


def test_a_rate_above_its_ceiling_is_reported() -> None:
    fast = windows(OTHER, 14.0, 14.1, 14.0, slots=1, slot_s=0.28, little_ratio=1.0)
    found = verdict_on(windows(ONE, 3.5, 3.5, 3.5), fast)
    assert "sleep_sync is above its pool ceiling of 3.57/s" in found.reason


def test_a_rate_above_its_ceiling_in_one_window_of_three_is_within_its_precision() -> None:
    calm = windows(OTHER, 14.0, 14.1, slots=4, slot_s=0.28, little_ratio=1.0)
    hasty = [changed(calm[0], round=3, rate=14.8)]
    found = verdict_on(windows(ONE, 3.5, 3.5, 3.5), [*calm, *hasty])
    assert found.verdict == HOLDS
    assert "ceiling" not in found.reason


@pytest.mark.parametrize(("ratios", "is_reported"), [((1.2, 1.3, 1.0), True), ((1.2, 1, 1), False)])
def test_users_that_differ_from_rate_x_mean_in_most_windows_are_reported(
    ratios: tuple[float, ...], is_reported: bool
) -> None:
    own = windows(OTHER, 14.0, 14.1, 14.0)
    own = [changed(record, little_ratio=ratio) for record, ratio in zip(own, ratios, strict=True)]
    found = verdict_on(windows(ONE, 3.5, 3.5, 3.5), own)
    assert ("rate x mean / users of threads is 1.30, not 1" in found.reason) is is_reported


def test_a_rate_limited_by_the_load_tool_is_unresolved() -> None:
    bound = windows(
        OTHER, 14.0, 14.1, 14.0, driver="builtin", flags=("client-bound: 90 %: use driver=h2load",)
    )
    found = verdict_on(windows(ONE, 3.5, 3.5, 3.5), bound)
    assert (found.verdict, found.reason) == (
        UNRESOLVED,
        "builtin limited the rate of threads",
    )


def test_a_disturbed_machine_has_no_verdict() -> None:
    busy = windows(OTHER, 14.0, 14.1, 14.0, others_cpu=0.6)
    found = verdict_on(windows(ONE, 3.5, 3.5, 3.5, others_cpu=0.6), busy)
    assert found.verdict == DISTURBED
    used = "other processes used 60 % of the machine's CPU"
    fix = "end the other processes (see offload doctor), or measure at a quieter time"
    assert found.reason == f"{used}: {fix}"
    assert verdict_on(busy).reason == "2/sleep_sync: not in this run"


ROUND_2 = (
    Figure("blocking", 76.54, 0.05, 1),
    Figure("pool", 1556.68, 0.05, 40),
    Figure("to_thread", 1113.16, 0.05, 16),
    Figure("aiohttp", 1753.13, 0.05),
)


def test_two_processes_cannot_have_served_what_four_can() -> None:
    found = claim_evaluation.audit_figures(
        "a_suite", Audit("2 workers", "", "", "", ROUND_2, 100, 2)
    )
    assert (found.verdict, found.published, found.here) == (DOES_NOT, 76.54, 40.0)
    assert "blocking 76.54/s exceeds 2 x 1 / 0.05 s = 40/s" in found.reason
    assert "4 processes fit every row" in found.reason
    four = claim_evaluation.audit_figures(
        "a_suite", Audit("4 workers", "", "", "", ROUND_2, 100, 4)
    )
    assert four.verdict == HOLDS


def test_users_that_a_mean_does_not_account_for_are_reported() -> None:
    figures = (Figure("sync", 3.55, 0.28, 1, 1.94), Figure("net", 4.6, mean_s=5.31))
    found = claim_evaluation.audit_figures("a_suite", Audit("rows", "", "", "", figures, 25))
    assert found.verdict == IN_PART
    assert "sync: rate x mean is 6.9 of 25 users" in found.reason
    assert "net" not in found.reason


def test_more_users_than_there_were_refute_a_row() -> None:
    found = claim_evaluation.audit_figures(
        "a_suite", Audit("rows", "", "", "", (Figure("a", 73.15, mean_s=1.367),), 10)
    )
    assert found.verdict == DOES_NOT
    assert "a: rate x mean is 100.0 users, not 10" in found.reason


def test_answers_of_other_lengths_are_not_comparable() -> None:
    figures = (
        Figure("a", 73.15, mean_s=1.367, body_bytes=974),
        Figure("b", 40.87, body_bytes=4870),
    )
    found = claim_evaluation.audit_figures("a_suite", Audit("rows", "", "", "", figures, 100))
    assert found.verdict == NOT_COMPARABLE
    assert found.reason == "b answered 4870 bytes, a 974: 5.0 times as many, not the same work"
    same = claim_evaluation.audit_figures(
        "a_suite", Audit("rows", "", "", "", (figures[0],) * 2, 100)
    )
    assert (same.verdict, same.reason) == (HOLDS, "rate x mean is about 100 users in every row")


def test_rates_alone_have_no_verdict() -> None:
    found = claim_evaluation.audit_figures(
        "a_suite", Audit("rows", "", "", "", (Figure("a", 73.15),), 100)
    )
    assert (found.verdict, found.reason) == (UNRESOLVED, "no row has a service time or a mean")


def test_64_processes_are_tried_too() -> None:
    figure = Figure("a row", rate=64.0 * ABOVE_CEILING, slots=1, service_s=1.0)
    one = Audit("one", "who", "where", "it is fast", (figure,), processes=1, users=64)
    assert "64 processes fit every row" in claim_evaluation.audit_figures("a_suite", one).reason
