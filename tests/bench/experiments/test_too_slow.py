"""A task that is too slow for its users is reported after its first request, in one line."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import pytest

from offload.engine import workload
from offload.engine.builder import retry_reasons
from offload.engine.load_phase import LoadOutcome
from offload.engine.plan import Block, Plan, Round, Sequential
from offload.engine.record import WINDOW, Baseline, CaseFacts, Result
from offload.engine.rounds import ReadyServer, StartedServer, collapses, users_after_stall
from offload.errors import LOAD, STALLED, TOO_SLOW, Problem, RunError, TooSlowError
from offload.loads import Load
from offload.suites import Case
from tests.records import changed, new_record
from tests.rounds import measure_cases

THREADS = CaseFacts("threads/slow", "threads", "slow", "run_server:3,slow", users=25)
LOOP = replace(THREADS, id="loop/slow", server="loop")


def test_the_line_has_the_times_the_timeout_and_what_to_do() -> None:
    with pytest.raises(TooSlowError) as raised:
        workload.check_timeout(THREADS, {"workers": 4}, 20.0)
    assert str(raised.value) == (
        "a request takes 20 s, and 25 users wait for 4 workers: a response would take 125 s, over "
        "the timeout of 30 s: use fewer users (users=4), more workers (x25 after the server), or a "
        "shorter task"
    )
    assert (raised.value.exit_code, raised.value.kind) == (RunError.exit_code, TOO_SLOW)
    with pytest.raises(TooSlowError, match=r"users wait for 1 worker: .* 500 s.*\(users=1\), or"):
        workload.check_timeout(LOOP, {"serial": True}, 20.0)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"workers": 4}, 4.8),
        ({"workers": 4, "processes": 2}, 9.6),
        ({"serial": True}, 1.2),
        ({"workers": 25}, math.inf),
        ({}, math.inf),
    ],
)
def test_users_wait_for_slots_if_their_number_is_known(
    reported: dict[str, Any], expected: float
) -> None:
    assert workload.longest_alone_s(THREADS, reported) == pytest.approx(expected)
    if expected < math.inf:
        workload.check_timeout(THREADS, reported, expected)


def test_a_load_that_all_cores_cannot_carry_is_repeated_with_few_users() -> None:
    stalled = replace(
        changed(
            new_record(Case("threads", "slow"), "run"),
            users=64,
            alone_s=0.01,
            cores_used=1.9,
            completed=70,
        ),
        problem=Problem(STALLED, "ever fewer requests succeeded"),
        environment={"cores": 2},
    )
    assert collapses(stalled)
    assert users_after_stall(stalled) == workload.MOST_FEW
    assert users_after_stall(replace(stalled, problem=None)) is None
    for other in (
        changed(stalled, cores_used=1.7),  # they wait for something else
        changed(stalled, users=4),
        changed(stalled, alone_s=None),
        changed(stalled, alone_s=1.0),  # 64 s of work
    ):
        assert not collapses(other)
        assert users_after_stall(other) is None


@pytest.mark.server
def test_a_real_case_that_is_too_slow_is_left_out_and_the_other_one_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Load, "timeout", 0.01)  # of a request alone; sleep_short_sync takes longer
    one = Case("threads", "sleep_short_sync", users=8, settings={"workers": 1})
    other = replace(one, users=2, settings={"workers": 2})
    slow, *measured = measure_cases(one, other)
    assert slow.problem is not None
    assert (slow.problem.kind, slow.result.rate, slow.trial.order) == (TOO_SLOW, None, None)
    assert "use fewer users (users=1)" in slow.problem.text
    assert retry_reasons(slow, []) == {}  # no retry
    assert measured[0].result.rate


def test_a_case_that_is_too_slow_has_no_second_round() -> None:
    cases = (Case("threads", "sleep_sync"), Case("processes", "sleep_sync"))
    plan = Plan(
        "measure", cases, 1, None, Sequential(quick=True), blocks=(Block((0, 1)), Block((1,)))
    )
    windows = [
        replace(
            changed(
                new_record(case, "run"),
                kind=WINDOW,
                block=0,
                round=1,
                case_index=case_index,
                rate=14.0,
            ),
            problem=None if case_index == 0 else Problem(TOO_SLOW, "slow"),
        )
        for case_index, case in enumerate(cases)
    ]
    assert plan.rule.case_indexes(plan, Round(0, 2), windows) == [0]
    only = [changed(windows[1], block=1)]
    assert plan.rule.is_finished(plan, plan.states(only), 1)
    assert {each.block for each in plan.rule.due(plan, only)} == {0}


def test_a_load_that_failed_by_its_timeouts_reports_how_long_a_request_takes() -> None:
    started = cast(StartedServer, type("Started", (), {"facts": LOOP})())
    ready = cast(Any, ReadyServer)(started, "", None, Baseline(alone_s=20.0), None, (), None)
    outcome = cast(Any, LoadOutcome)(
        None, Result(failed={"timeout": 9}), None, None, None, None, {}, (),
        Problem(LOAD, "not all users had a response within 85 s"),
    )  # fmt: skip
    found = ready._with_explanation(outcome).problem
    assert found == Problem(
        TOO_SLOW,
        "not all users had a response within 85 s (a request takes 20 s alone, and there are 25 "
        "users)",
        "use fewer users (users=1), or a shorter task",
    )
    for other in (
        replace(outcome, result=Result(failed={"refused": 9})),
        replace(outcome, problem=None),
    ):
        assert ready._with_explanation(other) is other
