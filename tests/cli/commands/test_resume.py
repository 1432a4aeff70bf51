"""An interrupted run prints how to resume it; a resumed run ends like an uninterrupted one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.cli import runner
from offload.cli.program import Exit
from offload.engine import journal
from offload.engine import run as running
from offload.engine.plan import Block, Plan, Sequential
from offload.engine.record import WINDOW, Record
from offload.errors import DisturbedError, StorageError, UsageError
from offload.suites import Case, Request
from tests.commands import fab_here
from tests.records import changed, new_record

CASES = (Case("threads", "noop_sync"), Case("processes", "noop_sync"))
PAIR = (Block((0, 1), ((0, 1),)),)
PLAN = Plan("measure", CASES, seed=1, driver=None, rule=Sequential(quick=True), blocks=PAIR)


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        (
            2,
            r"kept, and printed by offload report a_run: continue with offload resume a_run$",
        ),
        (0, r"fix it$"),
    ],
)
def test_an_error_in_a_run_reports_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int, expected: str
) -> None:
    def broken(plan: Plan, folder: Path) -> Iterator[list[Record]]:
        for _ in range(finished):
            journal.append(folder, new_record(PLAN.cases[0], "a_run", None))
        yield from ()
        raise UsageError("servers/x.py:1 cannot be read: fix it")

    monkeypatch.setattr(running, "run", broken)
    (tmp_path / "a_run").mkdir()
    with pytest.raises(UsageError, match=expected):
        runner.continue_run(PLAN, tmp_path / "a_run")


def test_a_run_that_cannot_be_resumed_is_not_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body of its requests is in no file."""

    def interrupted(plan: Plan, folder: Path) -> Iterator[list[Record]]:
        raise KeyboardInterrupt
        yield []

    monkeypatch.setattr(running, "run", interrupted)
    request = Request("/quote", "POST", "item=7", private=True)
    plan = replace(PLAN, cases=tuple(replace(case, request=request) for case in CASES))
    (tmp_path / "a_run").mkdir()
    journal.save_plan(plan, tmp_path / "a_run")
    with pytest.raises(Exit, match="kept: start a new run, because no file has the values or the"):
        runner.continue_run(plan, tmp_path / "a_run")


def a_run(suite: str, rounds: int = 3, **values: Any) -> str:
    """Write a complete run of a plan, in whose rounds the second case is twice as fast."""
    folder = journal.new_run(suite)
    journal.save_plan(replace(PLAN, suite=suite), folder)
    for number in range(1, rounds + 1):
        found = [
            changed(
                new_record(case, folder.name),
                **{
                    "kind": WINDOW,
                    "suite": suite,
                    "block": 0,
                    "round": number,
                    "case_index": place,
                },
                **{"quick": True, "rate": 100.0 * (1 + place) + number, "completed": 100},
                **{"workers": 1 + place, **values},
            )
            for place, case in enumerate(CASES)
        ]
        journal.append(folder, *found)
    return folder.name


def test_a_resumed_comparison_ends_in_its_verdict() -> None:
    run = a_run("compare")
    text = fab_here(f"resume:{run}")
    assert text.returncode == 0
    assert text.stdout.startswith("faster: 4/noop_sync is faster than 3/noop_sync\n")
    found = json.loads(fab_here(f"resume:{run},format=json").stdout)
    assert (found["verdict"], found["pairs"]) == ("faster", 3)


def test_a_disturbed_comparison_is_printed_and_exits_with_7() -> None:
    said = fab_here(f"resume:{a_run('compare', 5, others_cpu=0.5)}")
    assert said.returncode == DisturbedError.exit_code == 7
    assert said.stdout.startswith("disturbed: no verdict: ")
    assert said.stderr.splitlines()[-1].startswith("error: no verdict: end the other processes")


def test_a_resumed_sweep_ends_in_its_rates() -> None:
    folder = journal.RESULTS / a_run("scale")
    two = tuple(replace(CASES[0], settings={"workers": count}) for count in (1, 2))
    journal.save_plan(replace(PLAN, suite="scale", cases=two), folder)
    found = json.loads(fab_here(f"resume:{folder.name},format=json").stdout)
    assert [point["workers"] for point in found["points"]] == [1, 2]


def test_another_resumed_run_ends_in_its_tables() -> None:
    found = json.loads(fab_here(f"resume:{a_run('granian')},format=json").stdout)
    assert [row["rounds"] for row in found["rows"]] == [3, 3]


def test_a_run_without_a_finished_round_can_be_resumed_by_its_name() -> None:
    folder = journal.new_run("compare")
    journal.save_plan(replace(PLAN, suite="compare"), folder)
    assert journal.find_run(folder.name) == journal.newest_unfinished() == folder
    for name in ("nosuch", "..", ""):
        with pytest.raises(StorageError, match="no run"):
            journal.find_run(name)


def test_a_case_whose_retry_failed_has_no_figures_and_exits_with_5() -> None:
    """The first attempt has a rate, but its retry replaces it."""
    folder = journal.new_run("measure")
    block = (Block((0,)),)
    journal.save_plan(replace(PLAN, cases=CASES[:1], blocks=block), folder)
    first = {"kind": WINDOW, "suite": "measure", "block": 0, "case_index": 0, "quick": True}
    for number in (1, 2):
        tried = changed(new_record(CASES[0], folder.name), **first, round=number)
        good = changed(tried, rate=100.0, completed=100, flags=["others: 90 %"])
        journal.append(folder, good, changed(tried, attempt=2, problem="not available: it raised"))
    ended = fab_here(f"resume:{folder.name}")
    assert ended.returncode == 5
    assert "no row has figures: it raised" in ended.stderr


def test_failed_loads_are_counted_beside_the_figures_of_the_others() -> None:
    """Figures are those of the other loads, so each answer reports how many are left out."""
    for suite in ("measure", "compare"):
        folder = journal.RESULTS / a_run(suite)
        failed = changed(
            new_record(CASES[1], folder.name),
            **{"kind": WINDOW, "suite": suite, "block": 0, "round": 4, "case_index": 1},
            **{"quick": True, "problem": "not available: it raised"},
        )
        good = changed(journal.read(folder)[0], round=4)
        journal.append(folder, good, failed)
        text = fab_here(f"resume:{folder.name}").stdout
        known = " ".join(text.split())
        left_out = "1 of 4 loads failed and are left out: not available: it raised"
        assert left_out in known


def test_records_that_are_not_in_the_plan_are_ignored_with_one_warning() -> None:
    """Such a record would otherwise change the figures, or which rounds are due."""
    folder = journal.RESULTS / a_run("compare")
    expected = [fab_here(f"{command}:{folder.name}").stdout for command in ("report", "resume")]
    good = journal.read(folder)[0]
    changes: list[dict[str, Any]] = [
        {"block": 1},
        {"block": -1},
        {"case_index": 2},
        {"case_index": -1},
        {"round": 8},
        {"round": 0},
        {"round": None},
    ]
    journal.append(folder, *(changed(good, rate=1000.0, **change) for change in changes))
    path = folder / journal.FILE
    warning = f"warning: {path}: 7 records are ignored: case, block or round is not in the plan\n"
    for command, before in zip(("report", "resume"), expected, strict=True):
        journal.warn_once.cache_clear()
        after = fab_here(f"{command}:{folder.name}")
        assert (after.stdout, after.stderr.count("warning")) == (before, 1)
        assert warning in after.stderr


def test_a_torn_record_is_reported_once_by_a_command_that_reads_it_repeatedly() -> None:
    folder = journal.RESULTS / a_run("measure")
    with (folder / journal.FILE).open("a") as file:
        file.write('{"schema": 4, "tri\n')
    after = fab_here(f"resume:{folder.name}")
    assert (after.returncode, after.stderr.count("is not a record, skipped")) == (0, 1)
