"""What is due follows from the plan and the records alone, so that a run can go on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from offload.bench.records import plan as plans
from offload.bench.records.plan import Plan
from offload.bench.records.record import LONG, Record
from offload.bench.records.schedule import Due, due
from offload.errors import StorageError
from offload.suites import Case
from tests.records import changed, new_record

CASES = (Case("threads", "sleep_sync"), Case("processes", "sleep_sync"), Case("loop", "noop_sync"))
PLAN = Plan("tornado", CASES, seed=7, driver="siege")
QUICK = replace(PLAN, quick=True, driver=None)


def made(due: Due, rate: float | None = 14.0, problem: str | None = None) -> Record:
    record = new_record(due.case, "run", None)
    return changed(
        record, kind=due.kind, round=due.round, quick=QUICK.quick, rate=rate, problem=problem
    )


def run(plan: Plan, rates: dict[str, list[float]]) -> list[Record]:
    """Follow a plan to its end, with rates by server and round."""
    records: list[Record] = []
    while todo := due(plan, records):
        records += [made(d, rates[d.case.server][d.round - 1]) for d in todo]
    return records


def test_long_runs_come_first_in_the_order_of_the_table() -> None:
    assert [(d.kind, d.case) for d in due(PLAN, [])] == [(LONG, case) for case in CASES]


def test_a_round_visits_every_case_once_in_an_order_of_its_own() -> None:
    orders = [[case.name for case in PLAN.order(number)] for number in range(1, 20)]
    assert all(sorted(order) == sorted(case.name for case in CASES) for order in orders)
    assert len({tuple(order) for order in orders}) > 3
    assert orders == [[case.name for case in PLAN.order(number)] for number in range(1, 20)]


def test_a_case_that_is_known_drops_out_and_others_go_on_to_the_last_look() -> None:
    calm, wild = [14.0, 14.01, 14.02] * 7, [10.0, 20.0, 15.0] * 7
    records = run(QUICK, {"threads": calm, "processes": wild, "loop": calm})
    assert Counter(r.case.server for r in records) == {"threads": 3, "processes": 7, "loop": 3}


def test_finished_visits_are_not_due_again() -> None:
    first = due(QUICK, [])
    assert due(QUICK, [made(first[0])]) == first[1:]


def test_a_case_that_is_not_available_has_no_visits() -> None:
    away = [made(d, None, "not available: no network") for d in due(PLAN, [])]
    assert due(PLAN, away) == []


def test_a_case_that_fails_twice_in_a_row_is_given_up() -> None:
    records = run_failing()
    assert Counter(r.trial.round for r in records) == {1: 3, 2: 3}


def run_failing() -> list[Record]:
    records: list[Record] = []
    while todo := due(QUICK, records):
        records += [made(d, None, "the server died") for d in todo]
    return records


def test_a_case_that_was_measured_long_enough_is_given_up_at_a_look() -> None:
    records: list[Record] = []
    while todo := due(QUICK, records):
        records += [changed(made(d, 10.0 * d.round), phases={"load": 6.0}) for d in todo]
    assert Counter(r.case.server for r in records) == {"threads": 3, "processes": 3, "loop": 3}


def test_a_plan_is_kept_and_read_back(tmp_path: Path) -> None:
    plans.save(PLAN, tmp_path)
    assert plans.load(tmp_path) == PLAN


@pytest.mark.parametrize("text", ["", "[]", '{"cases": [{}]}', '{"cases": [], "seed": 1}'])
def test_what_is_no_plan_is_told_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / plans.FILE).write_text(text)
    with pytest.raises(StorageError, match="no plan of a run"):
        plans.load(tmp_path)
