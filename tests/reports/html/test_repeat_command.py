"""The command beside a picture measures the same cases with the same load."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from offload.bench.planning.plan import Plan
from offload.bench.records import journal
from offload.bench.target import origins
from offload.cli.commands import benchmark, cases, gate, start, understand
from offload.errors import RunError
from offload.reports.html import repeat_command, run
from offload.reports.html.run import MeasuredRun
from offload.suites import Case, Request
from tests.bench import gates
from tests.commands import fab_here
from tests.reports.html.pages import NAMES, committed

COMMANDS = [
    "measure:3/noop_sync",
    "measure:3x8/noop_sync,users=7,keep_alive=yes",
    "measure:3/noop_sync,target=1.5",
    "compare:3/noop_sync,3-protected/noop_sync",
    "compare:3/noop_sync,4x2/noop_sync,quick=yes",
    "scale:3/noop_sync,workers=1+2+4",
    "scale:3/noop_sync,workers=1+2+4,users=9",
    "scale:3x2/noop_sync,users=1+2+4",
    "gil:noop_sync,workers=3",
    "quick",
    "run_suite:granian,quick=yes",
    "run_suite:tornado,rows=latency",
    "run_suite:fastapi_strawberry",
    "run_suite:tornado,target=3",
]
REQUESTS = [
    ["measure:3/noop_sync", "--request=/a?b=1"],
    ["measure:3/noop_sync", "--method=PUT", '--body={"a": 1, "b": [2, 3]}'],
    ["compare:3/noop_sync,4/noop_sync", "--header=Accept: text/html, text/plain"],
]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Collect the plans of commands instead of running them."""
    plans: list[Plan] = []

    def start_run(plan: Plan, is_live: bool = False) -> None:
        plans.append(plan)
        raise RunError("planned")

    for module in (benchmark, cases, gate, start, understand):
        monkeypatch.setattr(module, "start_run", start_run)
    return plans


def command_of(plan: Plan) -> str | None:
    return repeat_command.of_run(MeasuredRun(Path("run"), [], plan))


@pytest.mark.parametrize("words", [*([words] for words in COMMANDS), *REQUESTS], ids=" ".join)
def test_the_command_of_a_run_plans_the_same_run(words: list[str], planned: list[Plan]) -> None:
    assert "planned" in fab_here(*words).stderr
    command = command_of(planned[0])
    assert command is not None
    first, *rest = shlex.split(command)
    assert first == "offload"
    fab_here(*rest)
    assert len(planned) == 2, command
    one, other = planned
    assert replace(other, seed=one.seed) == one


def test_the_command_is_the_same_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of a run has the same bytes wherever it is written."""
    plan = Plan("measure", (Case("threads", f"{tmp_path}/shop.py:quote"),), 1, None)
    for folder in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(folder)
        assert command_of(plan) == f"offload measure:3/{tmp_path}/shop.py:quote"


@pytest.mark.parametrize(
    "words",
    [
        "compare_runs:against=.,cases=3/noop_sync",
        "compare_runs:against=.,cases=3/noop_sync+4x2/noop_sync,gate=7.5,users=9,budget=90",
        "compare_runs:against=.,cases=3/noop_sync,max_p99=50ms",
        "compare_runs:against=.,cases=uvicorn_h11/app=docs.shop:app",
    ],
)
def test_the_command_of_a_gate_plans_the_same_gate(
    words: str, planned: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origins, "differences", lambda *_: ["a instead of b"])
    assert "planned" in fab_here(words).stderr
    command = command_of(planned[0])
    assert command is not None
    fab_here(*shlex.split(command)[1:])
    assert len(planned) == 2, command
    assert replace(planned[1], seed=planned[0].seed) == planned[0]


def test_a_gate_whose_load_cases_cannot_name_has_no_command() -> None:
    assert command_of(gates.plan(gates.THREADS)) is not None
    for other in (
        replace(gates.PROCESSES, users=8),
        replace(gates.PROCESSES, keep_alive=True),
        replace(gates.PROCESSES, request=Request("/x")),
        replace(gates.PROCESSES, path="/x"),
        replace(gates.PROCESSES, settings={"protect": "no"}),
    ):
        assert command_of(gates.plan(gates.THREADS, other)) is None, other


@pytest.mark.parametrize("name", [name for name in NAMES if name != "example-advise"])
def test_a_committed_run_names_its_suite(name: str, planned: list[Plan]) -> None:
    own = run.read(committed(name))
    command = repeat_command.of_run(own)
    assert command is not None
    fab_here(*shlex.split(command)[1:])
    assert [plan.suite for plan in planned] == own.suites
    assert planned[0].quick == own.records[0].trial.quick


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_a_case_measures_that_case(name: str, planned: list[Plan]) -> None:
    own = run.read(committed(name))
    known = [(row, command) for row in own.rows if (command := repeat_command.of_cases(own, row))]
    if name == "example-tornado":
        assert len(known) == len(own.rows)
    for row, command in known[:12]:
        planned.clear()
        fab_here(*shlex.split(command)[1:])
        [case] = planned[0].cases
        assert (case.server, case.task, case.users) == (
            row.first.case.server,
            row.first.case.task,
            row.first.case.users,
        )
        assert case.keep_alive == row.first.case.keep_alive


def test_a_run_whose_header_is_hidden_has_no_command(planned: list[Plan]) -> None:
    fab_here("measure:3/noop_sync", "--header=Authorization: Bearer secret")
    [plan] = planned
    [case] = plan.cases
    assert case.request is not None
    hidden = replace(case, request=type(case.request)(**dict(case.request.masked)))
    assert command_of(replace(plan, cases=(hidden,))) is None


def test_the_other_side_of_a_gate_has_no_command_of_its_own() -> None:
    plan = gates.plan(gates.THREADS)
    found = gates.records(plan, gates.rates(1.0), 2)
    own = MeasuredRun(Path("run"), found, plan)
    baseline, now = own.rows
    assert baseline.first.case.origin == "../main"
    assert repeat_command.of_cases(own, baseline) is None
    assert repeat_command.of_cases(own, now) == "offload measure:3/count_sync"


def test_a_server_that_is_not_here_any_more_has_no_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = run.read(committed("example-tornado"))
    from offload.registry import catalog

    monkeypatch.setattr(catalog, "servers", lambda: {})
    assert repeat_command.of_cases(own, own.rows[0]) is None
    assert journal.is_example(own.folder)
