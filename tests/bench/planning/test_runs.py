"""A suite is evaluated by its newest complete run; newer incomplete runs are reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offload.engine import journal, plan
from offload.engine.plan import Block
from offload.errors import StorageError
from offload.suites import Case
from tests.records import changed, new_record
from tests.rules import with_rule

CASES = (Case("threads", "noop_sync"), Case("loop", "noop_sync"))
PLAN = plan.Plan(
    "tornado", CASES, seed=1, driver=None, rule=plan.Sequential(), blocks=(Block((0, 1)),)
)


def new_run(second: int, *rates: float | None) -> Path:
    folder = journal.RESULTS / f"20260101-00000{second}-tornado"
    folder.mkdir(parents=True)
    journal.save_plan(PLAN, folder)
    for case, rate in zip(CASES, rates, strict=False):
        record = changed(new_record(case, folder.name, None), suite="tornado", rate=rate)
        journal.append(folder, record)
    return folder


def chosen() -> tuple[Path | None, list[str]]:
    found, lacks = journal.newest_of_suite("tornado")
    return (None if found is None else found.folder), lacks


def test_the_newest_whole_run_counts() -> None:
    assert chosen() == (None, [])
    new_run(1, 14.2, 3.5)
    newer = new_run(2, 14.3, None)
    assert chosen() == (newer, [])


def test_an_unfinished_or_failed_run_does_not_replace_a_whole_one() -> None:
    whole = new_run(1, 14.2, 3.5)
    new_run(2, None, None)
    new_run(3, 14.2)
    assert chosen() == (
        whole,
        [
            "20260101-000003-tornado is unfinished: offload resume 20260101-000003-tornado",
            "20260101-000002-tornado has no figures",
        ],
    )


def test_without_a_whole_run_an_unfinished_one_counts_and_reports_it() -> None:
    failed, unfinished = new_run(1, None, None), new_run(2, 14.2)
    assert chosen()[0] == unfinished
    journal.append(new_run(3), changed(new_record(CASES[0], "", None), suite="another"))
    assert chosen()[0] == unfinished
    assert len(chosen()[1]) == 2
    (unfinished / journal.FILE).unlink()
    (journal.RESULTS / "20260101-000003-tornado" / journal.FILE).unlink()
    assert chosen() == (failed, ["20260101-000001-tornado has no figures"])


def test_a_run_of_cases_that_differ_only_in_their_time_is_whole() -> None:
    folder = new_run(1, 14.2, 3.5)
    journal.save_plan(replace(PLAN, cases=(*CASES, replace(CASES[0], seconds=99.0))), folder)
    assert chosen() == (folder, [])


def test_resume_finds_the_newest_run_that_is_unfinished() -> None:
    with pytest.raises(StorageError, match="no unfinished run"):
        journal.newest_unfinished()
    interrupted = new_run(1, 14.2)
    for name in ("20260101-000002-finished", "example", "example-granian"):
        folder = journal.RESULTS / name
        folder.mkdir()
        journal.save_plan(
            plan.Plan("measure", (), seed=1, driver=None, rule=plan.Sequential()), folder
        )
    load_tests = journal.new_run("z")  # later than the others, and without a plan
    machine = {"cpu": "a CPU"}
    journal.append(load_tests, new_record(CASES[0], load_tests.name, None, environment=machine))
    assert (load_tests / journal.RUN_FILE).is_file()
    assert journal.newest_unfinished() == interrupted


def test_a_run_whose_time_is_over_is_finished_unless_it_lacks_a_long_run() -> None:
    folder = new_run(1, 14.2, 3.5)
    journal.save_plan(with_rule(PLAN, budget_s=0.0), folder)
    with pytest.raises(StorageError, match="no unfinished run"):
        journal.newest_unfinished()
    journal.save_plan(replace(with_rule(PLAN, budget_s=0.0), driver="builtin"), folder)
    assert journal.newest_unfinished() == folder
