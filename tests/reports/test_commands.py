"""The output of the commands that measure, with given records instead of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offload.cli import runner
from offload.engine import journal
from offload.engine.plan import Plan
from offload.engine.record import Record
from offload.registry import catalog
from offload.suites import load_suite
from tests.commands import fab_here
from tests.records import changed
from tests.reports.test_tables import AWAY, PROCESSES, RECORD, windows

STEADY = (10.0, 10.1, 9.9, 10.0, 10.0)
RUN = [*windows(RECORD, *STEADY), *windows(PROCESSES, *(2 * rate for rate in STEADY))]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Replace every run by RUN, or by what a test puts into this list."""
    records = [*RUN]

    def start_run(plan: Plan, is_live: bool = False) -> tuple[Path, list[Record]]:
        folder, found = journal.new_run(plan.suite), [changed(r, suite=plan.suite) for r in records]
        journal.append(folder, *found)
        return folder, found

    monkeypatch.setattr(runner, "start_run", start_run)
    return records


@pytest.mark.parametrize("words", ["quick", "run_all_load_tests", "run_suite:granian"])
@pytest.mark.usefixtures("measured")
def test_json_is_one_object_by_the_schema(words: str) -> None:
    completed = fab_here(f"{words}{',' if ':' in words else ':'}format=json")
    assert (completed.returncode, completed.stderr.count("\n")) == (0, 1)
    assert completed.stderr.startswith("report: ")
    found = json.loads(completed.stdout)
    assert [(effect["task"], effect["verdict"]) for effect in found["effects"]] == [
        ("xml", "faster")
    ]


@pytest.mark.usefixtures("measured")
def test_json_of_all_suites_is_a_list_of_objects() -> None:
    completed = fab_here("run_suite:all,format=json")
    assert completed.returncode == 0, completed.stderr
    found = json.loads(completed.stdout)
    names = [name for name in catalog.suites() if getattr(load_suite(name), "IN_ALL", True)]
    assert len(found) == len(names) >= 5


@pytest.mark.usefixtures("measured")
def test_nothing_is_measured_if_an_option_does_not_suit_all_suites(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []

    def start_run(plan: Plan, is_live: bool = False) -> tuple[None, list[Record]]:
        started.append(plan.suite)
        return None, []

    monkeypatch.setattr(runner, "start_run", start_run)
    assert fab_here("run_suite:all,rows=published").returncode == 2
    assert started == []


def test_json_of_runs_without_figures_is_printed_before_the_error(measured: list[Record]) -> None:
    measured[:] = [AWAY]
    for words in ("run_suite:all", "run_suite:granian", "quick:"):
        completed = fab_here(f"{words},format=json".replace(":,", ":"))
        assert completed.returncode == 5
        assert completed.stderr.splitlines()[-1].startswith("error: ")
        found = json.loads(completed.stdout)
        for each in found if isinstance(found, list) else [found]:
            assert [row["rate"] for row in each["rows"]] == [None]


def test_a_disturbed_run_prints_the_word_and_ends_with_0(measured: list[Record]) -> None:
    measured[:] = [changed(record, others_cpu=0.5) for record in RUN]
    completed = fab_here("quick")
    assert completed.returncode == 0
    assert "disturbed: other processes used 50 % of the machine's CPU" in completed.stdout
