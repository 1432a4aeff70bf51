"""Two stored runs are compared by their rates; differences in machine speed are not judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from offload.engine import journal
from offload.engine.host import environment
from offload.engine.plan import Block, Plan, Sequential
from offload.engine.record import WINDOW
from offload.errors import RunError, UsageError
from offload.studies.gate import result
from offload.studies.gate.result import PASSED, RED, GateResult
from offload.studies.gate.rule import DISTURBED, FAILS, NO_BASELINE, GateTerms
from offload.suites import Case
from tests.records import changed, new_record

CASES = (Case("threads", "count_sync"), Case("processes", "count_sync"))
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002, 0.998, 1.0)
TERMS = GateTerms(0.05)


def a_run(
    name: str,
    rates: Sequence[float],
    speed_s: float = 0.03,
    cases: Sequence[Case] = CASES,
    **values: Any,
) -> Path:
    """Write a run in which each case has a rate, on a machine of constant speed."""
    folder = journal.RESULTS / name
    folder.mkdir()
    blocks = tuple(Block((n,)) for n in range(len(cases)))
    journal.save_plan(Plan("measure", tuple(cases), 1, None, Sequential(), blocks=blocks), folder)
    for case_index, (case, rate) in enumerate(zip(cases, rates, strict=True)):
        made = changed(new_record(case, name), kind=WINDOW, block=case_index, case_index=case_index)
        known = {"python_s": speed_s, "memory_s": speed_s, "others_cpu": 0.0, "completed": 100}
        found = [
            changed(made, **{**known, "rate": rate * off, "round": number, **values})
            for number, off in enumerate(NOISE, start=1)
        ]
        journal.append(folder, *found)
    return folder


def compared(
    now: Sequence[float],
    then: Sequence[float] = (100.0, 100.0),
    terms: GateTerms = TERMS,
    **values: Any,
) -> GateResult:
    return result.compare_kept(a_run("baseline-main", then), a_run("run", now, **values), terms)


@pytest.mark.parametrize(
    ("rates", "expected", "words"),
    [
        ((100.0, 100.0), PASSED, ["no loss", "no loss"]),
        ((100.0, 80.0), RED, ["no loss", "loss"]),
        ((100.0, 95.0), "undecided", ["no loss", "undecided"]),
    ],
)
def test_rates_of_a_steady_machine_are_judged(
    rates: tuple[float, float], expected: str, words: list[str]
) -> None:
    found = compared(rates)
    assert (found.outcome, [case.verdict.outcome for case in found.cases]) == (expected, words)
    assert found.kept is not None
    assert found.kept.moved == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.0, "undecided"), (0.8, "undecided"), (0.6, RED)]
)
def test_a_loss_that_a_slower_machine_explains_is_not_judged(ratio: float, expected: str) -> None:
    """The machine was slower by 30 % in one of the runs: a loss of 27 % may be none."""
    found = compared((100 * ratio, 100 * ratio), speed_s=0.039)
    assert found.kept is not None
    assert found.kept.moved == pytest.approx(0.3)
    assert found.kept.smallest(0.05) == pytest.approx(1 - 0.95 / 1.3)
    assert found.outcome == expected


def test_an_unknown_speed_leaves_everything_undecided() -> None:
    found = compared((50.0, 100.0), python_s=None, memory_s=None)
    assert found.kept is not None
    assert (found.kept.moved, found.outcome) == (None, "undecided")
    assert found.kept.smallest(0.05) is None
    assert {case.verdict.outcome for case in found.cases} == {"undecided"}


def test_the_runs_of_a_gate_have_a_case_in_common() -> None:
    other = (Case("loop", "count_sync"), Case("sync", "count_sync"))
    with pytest.raises(RunError, match="no case in common: baseline-main has 3/count_sync, 4/"):
        compared((100.0, 100.0), cases=other)


def test_a_run_is_not_compared_with_its_own_copy() -> None:
    run = a_run("run", (100.0, 100.0))
    kept = journal.keep_baseline("main", run)
    with pytest.raises(UsageError, match="run is the run that baseline-main was copied from: mea"):
        result.compare_kept(kept, run, TERMS)


def test_another_load_is_another_case() -> None:
    cases = (CASES[0], Case("processes", "count_sync", users=8))
    found = compared((100.0, 10.0), cases=cases)
    assert [case.name for case in found.cases] == ["3/count_sync"]
    assert found.left_out == ("4/count_sync", "4/count_sync")


def test_a_case_that_one_run_did_not_measure_is_no_success() -> None:
    whole, ended = a_run("baseline-main", (100.0, 100.0)), a_run("run", (100.0, 100.0))
    path = ended / journal.FILE
    first_case = path.read_text().splitlines(keepends=True)[: len(NOISE)]
    path.write_text("".join(first_case))
    for one, other, open_case in ((whole, ended, "undecided"), (ended, whole, NO_BASELINE)):
        found = result.compare_kept(one, other, TERMS)
        assert found.outcome == "undecided"
        assert [case.verdict.outcome for case in found.cases] == ["no loss", open_case]
        assert str(found.cases[1].verdict.reason) == "problem: it was not measured"
        assert found.left_out == ()


def test_only_named_cases_are_judged_and_an_unknown_one_is_an_error() -> None:
    one, other = a_run("baseline-main", (100.0, 100.0)), a_run("run", (100.0, 50.0))
    assert result.compare_kept(one, other, TERMS, ["threads/count_sync"]).outcome == PASSED
    with pytest.raises(UsageError, match="no '3/count' in the cases of both runs: did you mean 3/"):
        result.compare_kept(one, other, TERMS, ["3/count"])


def test_runs_of_different_machines_are_not_compared() -> None:
    with pytest.raises(RunError, match=r"measured on another machine \(cores: .*measure both now"):
        compared((100.0, 100.0), environment={**environment(), "cores": 999})


def test_a_run_that_was_continued_on_another_machine_is_not_compared() -> None:
    one, other = a_run("baseline-main", (100.0, 100.0)), a_run("run", (100.0, 100.0))
    first = journal.read(other)[0]
    elsewhere = {**environment(), "cores": 999}
    journal.append(other, changed(first, round=9, environment=elsewhere))
    for pair in ((one, other), (other, one)):
        with pytest.raises(RunError, match=r"measured on another machine \(cores: "):
            result.compare_kept(*pair, TERMS)


def test_an_unknown_machine_is_not_compared() -> None:
    with pytest.raises(RunError, match="the machine of baseline-main or of the run is unknown"):
        compared((100.0, 100.0), environment={"python": "3.11.7"})


def test_another_upstream_is_no_verdict() -> None:
    found = compared((100.0, 50.0), upstream={"kind": "nginx", "latency_s": 0.0})
    assert {case.verdict.outcome for case in found.cases} == {"undecided"}
    assert "upstream" in str(found.cases[0].verdict.reason)


def test_a_case_that_fails_now_is_red_and_a_disturbed_one_open() -> None:
    failed = compared((100.0, 100.0), rate=None, problem="not available: no module 'shop'")
    assert (failed.outcome, failed.cases[0].verdict.outcome) == (RED, FAILS)


def test_a_disturbed_run_is_no_verdict() -> None:
    found = compared((50.0, 50.0), others_cpu=0.5)
    assert {case.verdict.outcome for case in found.cases} == {DISTURBED}
    assert found.outcome == "undecided"


@pytest.mark.parametrize(("min_rate", "holds"), [(90.0, (True, True)), (150.0, (True, False))])
def test_a_condition_is_about_the_newer_run(min_rate: float, holds: tuple[bool, bool]) -> None:
    found = compared((200.0, 100.0), terms=GateTerms(0.05, min_rate=min_rate))
    assert found.condition is not None
    assert found.condition.cases == holds


def test_a_run_of_an_unknown_machine_is_not_compared() -> None:
    with pytest.raises(RunError, match="the machine of baseline-main or of the run is unknown"):
        compared((100.0, 100.0), environment={})
