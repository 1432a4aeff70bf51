"""Two cases are compared by the rounds they share, unless others disturbed the measurement."""

from __future__ import annotations

import re
from typing import Any

import pytest

from offload.engine.decisions import DISTURBED, FASTER, SAME, SLOWER, TINY, UNRESOLVED
from offload.engine.figures import (
    MAX_DIFFERENCE,
    MAX_OTHERS,
    MAX_STEAL,
    Comparison,
    compare_windows,
    estimate_rate,
)
from offload.engine.record import Record, RunRecords, average_by_round
from tests.records import changed, record_of

NOISE = (1.0, 1.4, 0.8, 1.1, 0.9)  # of the machine: it is in both cases of a round
BOUND = ("client-bound: busy: use driver=h2load",)


def windows(rates: list[float | None], case_index: int = 0, **values: Any) -> list[Record]:
    """Return two windows of each round, the second one slower by a tenth."""
    made = [
        record_of(
            "run",
            "threads",
            "noop_sync",
            2,
            "",
            "",
            kind="window",
            block=0,
            case_index=case_index,
            round=n,
        )
        for n in range(1, len(rates) + 1)
    ]
    return [
        changed(record, order=order, rate=rate and rate * factor, **values)
        for record, rate in zip(made, rates, strict=True)
        for order, factor in ((1, 1.0), (2, 0.9))
    ]


def pair(times: float, one: dict[str, Any] | None = None, **other: Any) -> Comparison:
    """Compare a case with one that is so many times as fast, in five rounds with the noise."""
    slight = (1.0, 1.001, 0.999, 1.002, 0.998)  # what is left of it within a round
    first = windows([100 * n for n in NOISE], **(one or {}))
    second = windows(
        [100 * n * times * s for n, s in zip(NOISE, slight, strict=True)], case_index=1, **other
    )
    return compare_windows(first, second)


def test_what_changes_from_round_to_round_cancels() -> None:
    found = pair(1.5).verdict
    assert (found.outcome, found.pairs) == (FASTER, 5)
    assert found.ratio == pytest.approx(1.5, rel=0.001)
    assert found.low is not None and found.low > 1.49
    assert pair(1 / 1.5).verdict.outcome == SLOWER
    assert pair(1.0).verdict.outcome == SAME
    assert pair(1.015).verdict.outcome == SAME


def test_a_round_counts_once_by_the_mean_of_its_windows() -> None:
    assert [*average_by_round(windows([100.0]), lambda r: r.result.rate).values()] == [
        pytest.approx((100 * 90) ** 0.5)
    ]


def test_only_rounds_in_which_both_have_a_rate_are_pairs() -> None:
    found = compare_windows(
        windows([100.0, None, 120.0, 90.0]), windows([150.0, 170.0, None], case_index=1)
    )
    assert (found.verdict.outcome, found.verdict.pairs) == (UNRESOLVED, 1)
    assert compare_windows([], []).verdict.pairs == 0


def test_rounds_of_another_block_or_run_are_no_pairs() -> None:
    one = windows([100.0, 101.0, 99.0])
    for other in ({"block": 1}, {"run": "another"}):
        assert compare_windows(one, [changed(r, **other) for r in one]).verdict.pairs == 0


def test_a_case_against_itself_keeps_both_by_their_places() -> None:
    both = [*windows([100.0, 90.0]), *windows([101.0, 91.0], case_index=1)]
    first, second = (RunRecords(both).at(case_index).windows() for case_index in (0, 1))
    assert {record.key for record in both} == {both[0].key}
    assert compare_windows(first, second).verdict.pairs == 2
    assert compare_windows(first, second).verdict.ratio == pytest.approx(1.01, rel=0.01)


def test_only_the_last_attempt_of_a_round_counts() -> None:
    both = [*windows([100.0]), *windows([150.0], case_index=1)]
    records = RunRecords([*both, *(changed(r, attempt=2, rate=7.0) for r in both)])
    assert [r.trial.attempt for r in records.windows()] == [2] * 4


def test_quick_has_its_own_smallest_difference() -> None:
    rates = [100.0, 101.0, 99.0]
    one, other = windows(rates), windows([rate * 1.03 for rate in rates], case_index=1)
    normal = compare_windows(one, other).verdict
    found = compare_windows(
        [changed(r, quick=True) for r in one], [changed(r, quick=True) for r in other]
    ).verdict
    assert (normal.outcome, found.outcome) == (FASTER, SAME)


def test_a_level_that_is_stricter_widens_the_interval() -> None:
    one, noisy = windows([100.0, 101.0, 99.0]), windows([104.0, 96.0, 101.0], case_index=1)
    wide, narrow = (
        compare_windows(one, noisy, level=0.005).verdict,
        compare_windows(one, noisy).verdict,
    )
    assert (wide.low or 0) < (narrow.low or 0) < (narrow.high or 0) < (wide.high or 0)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"others_cpu": MAX_OTHERS + 0.01}, {"others_cpu": MAX_OTHERS + 0.01}, "other processes"),
        ({"steal": MAX_STEAL + 0.01}, {"steal": MAX_STEAL + 0.01}, "the hypervisor used 6 %"),
        (
            {"others_cpu": 0.0},
            {"others_cpu": MAX_DIFFERENCE + 0.01},
            "0 % of .* during one case, 11 %",
        ),
    ],
)
def test_a_disturbed_measurement_has_no_verdict(
    one: dict[str, float], other: dict[str, float], message: str
) -> None:
    found = pair(1.5, one, **other)
    assert found.verdict.outcome == DISTURBED
    assert found.verdict.ratio == pytest.approx(1.5, rel=0.001)
    assert found.disturbed is not None
    assert re.search(message, found.disturbed.message)
    assert "quieter time" in found.disturbed.remedy


def test_an_unknown_share_of_others_is_no_difference_between_the_cases() -> None:
    assert pair(1.5, {"others_cpu": None}, others_cpu=0.3).verdict.outcome == FASTER


def test_others_up_to_a_third_and_alike_do_not_disturb() -> None:
    limits = {"others_cpu": MAX_OTHERS, "steal": MAX_STEAL}
    assert pair(1.5, limits, **limits).verdict.outcome == FASTER


def test_a_disturbance_of_less_than_half_of_the_windows_does_not_count() -> None:
    one = windows([100.0, 101.0, 99.0], steal=0.0)
    other = windows([150.0, 151.0, 149.0], case_index=1, steal=0.0)
    for count, outcome in ((2, FASTER), (3, DISTURBED)):
        loud = [
            [changed(r, steal=0.2) if n < count else r for n, r in enumerate(own)]
            for own in (one, other)
        ]
        assert compare_windows(*loud).verdict.outcome == outcome


@pytest.mark.parametrize(
    ("times", "one", "other", "outcome", "at_least"),
    [
        (1.5, (), BOUND, FASTER, True),
        (1.5, BOUND, (), UNRESOLVED, False),
        (1.5, BOUND, BOUND, UNRESOLVED, False),
        (0.5, BOUND, (), SLOWER, True),
        (0.5, (), BOUND, UNRESOLVED, False),
        (1.0, BOUND, (), UNRESOLVED, False),
        (1.0, (), BOUND, UNRESOLVED, False),
        (1.0, (), (), SAME, False),
    ],
)
def test_what_the_load_tool_limited_is_at_least_a_difference_and_never_the_same(
    times: float, one: tuple[str, ...], other: tuple[str, ...], outcome: str, *, at_least: bool
) -> None:
    found = pair(times, {"flags": one}, flags=other)
    assert (found.verdict.outcome, found.at_least) == (outcome, at_least)


def test_a_tiny_difference_is_no_verdict_where_the_load_tool_was_the_limit() -> None:
    one = windows([100.0, 100.1, 99.9, 100.0, 100.0])
    other = windows([101.9, 102.6, 101.5, 101.0, 102.8], case_index=1)
    assert compare_windows(one, other).verdict.outcome == TINY
    bound = [changed(record, flags=BOUND) for record in other]
    assert compare_windows(one, bound).verdict.outcome == UNRESOLVED


def test_another_value_than_the_rate_is_not_limited_by_the_load_tool() -> None:
    one = windows([1.0, 1.0, 1.0], flags=BOUND, memory_pss_mib=50.0)
    other = windows([1.0, 1.0, 1.0], case_index=1, flags=BOUND, memory_pss_mib=100.0)
    found = compare_windows(one, other, lambda record: record.resources.memory.pss_mib)
    assert (found.verdict.outcome, found.verdict.ratio) == (FASTER, pytest.approx(2.0))


def test_what_a_server_completed_before_it_died_is_no_rate() -> None:
    died = [changed(record, problem="the server died") for record in windows([0.5], case_index=1)]
    alive = windows([80.0])
    assert average_by_round(died, lambda record: record.result.rate) == {}
    assert compare_windows(alive, died).verdict.pairs == 0


def test_a_rate_below_zero_in_a_damaged_record_is_left_out() -> None:
    found = windows([-1.0, 80.0], rate_quantum=-0.1)
    assert [*average_by_round(found, lambda record: record.result.rate)] == [("run", 0, 2)]
    assert estimate_rate(found).n == 1
