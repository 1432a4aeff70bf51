"""`offload report format=html` writes a file, and so does every run at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from offload.cli import runner
from offload.documents import html_report
from offload.engine import journal
from offload.engine import run as experiment
from offload.engine.plan import Block, Plan, Sequential
from offload.suites import Case
from tests.bench import gates
from tests.commands import fab_here
from tests.records import changed
from tests.reports.html.pages import parsed, rendered, tables, words, written
from tests.reports.test_tables import PROCESSES, RECORD, windows

RECORDS = [*windows(RECORD, 10.0, 10.1, 9.9), *windows(PROCESSES, 20.0, 20.1, 19.9)]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return a plan whose run is replaced by RECORDS."""

    def measured(_: Plan, folder: Path) -> list[list[object]]:
        journal.append(folder, *RECORDS)
        return [[*RECORDS]]

    monkeypatch.setattr(experiment, "run", measured)
    cases = (Case("threads", "noop_sync"), Case("processes", "noop_sync"))
    return Plan("compare", cases, 1, None, Sequential(), blocks=(Block((0, 1), ((0, 1),)),))


def test_fab_report_writes_the_file_into_the_folder_and_prints_its_path() -> None:
    folder = written("run", *RECORDS)
    done = fab_here("report:run,format=html")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{folder / 'report.html'}\n", "")
    assert (folder / "report.html").read_text() == rendered(folder)


@pytest.mark.parametrize(
    "command",
    [
        "report:{}",
        "report:runs=run+{}",
        "claims:run={}",
        "resume:{}",
        "live:{}",
        "baseline:main,run={}",
        "compare_runs:{},run=run",
        "compare_runs:run,run={}",
    ],
)
def test_a_report_in_place_of_a_run_is_refused_in_one_line(command: str) -> None:
    folder = written("run", *RECORDS)
    assert fab_here("report:run,format=html").returncode == 0
    for path in (folder / "report.html", "of_a_colleague.HTML"):
        refused = fab_here(command.format(path))
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == (
            f"error: {path} is a report, not a run: name the folder of its run in "
            f"{journal.RESULTS}; copy the run of a colleague there\n"
        )


def test_the_newest_run_is_reported_unless_another_is_named() -> None:
    folder = written("20260101-000000-compare", *RECORDS)
    assert fab_here("report:format=html").stdout == f"{folder / 'report.html'}\n"


def test_open_opens_the_file_in_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(runner, "open_in_browser", lambda url: opened.append(url) or True)
    folder = written("run", *RECORDS)
    assert fab_here("report:run,format=html,open=yes").returncode == 0
    assert opened == [(folder / "report.html").as_uri()]
    monkeypatch.setattr(runner, "open_in_browser", lambda _: False)
    done = fab_here("report:run,format=html,open=yes")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "no browser was found" in done.stderr


def test_a_run_writes_its_report_at_its_end(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    folder = journal.new_run("compare")
    runner.continue_run(plan, folder)
    assert not (folder / "report.html").exists()
    runner.write_report(folder)
    assert (folder / "report.html").exists()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"report: {folder / 'report.html'}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("error", [OSError("no\nspace"), RuntimeError("bug"), MemoryError()])
def test_a_report_that_cannot_be_written_is_one_warning(
    error: Exception,
    plan: Plan,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(html_report, "html", fail)
    folder = journal.new_run("compare")
    runner.continue_run(plan, folder)
    runner.write_report(folder)
    printed = capsys.readouterr().err
    assert printed.startswith("warning: no report.html: ")
    assert printed.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_an_error_with_the_exit_code_of_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = written("run", *RECORDS)
    monkeypatch.setattr(html_report, "REPORT_FILE", "missing/report.html")
    done = fab_here("report:run,format=html")
    assert (done.returncode, done.stderr.count("\n")) == (6, 1)
    assert str(folder) in done.stderr


def test_a_sweep_has_its_model_and_a_comparison_its_verdict() -> None:
    sweep = [
        record
        for n, rate in ((1, 10.0), (2, 20.0), (3, 30.0), (4, 40.0), (6, 40.5), (8, 40.2))
        for record in windows(RECORD, rate, rate * 1.01, rate * 0.99, suite="scale", workers=n)
    ]
    sweep += [
        changed(record, rate=None, problem="the server ended")
        for record in windows(RECORD, 1.0, 1.0, suite="scale", workers=5)
    ]
    folder = written("scale", *sweep)
    numbers = (1, 2, 3, 4, 5, 6, 8)
    plan = Plan(
        "scale",
        tuple(Case("threads", "noop_sync", settings={"workers": n}) for n in numbers),
        1,
        None,
        Sequential(quick=True),
        blocks=(Block((0, 1, 2, 3, 4, 5, 6)),),
    )
    journal.save_plan(plan, folder)
    found = tables(parsed(rendered(folder)))["Figures of scale"]
    models = {int(words(row["workers"])): words(row["knee"]).removesuffix("/s") for row in found}
    assert [*models] == [*numbers]
    assert models.pop(5) == "-"
    expected = {1: 10, 2: 20, 3: 30, 4: 40, 6: 40, 8: 40}
    rates = {number: float(rate) for number, rate in models.items()}
    assert rates == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("ratio", "sentence"),
    [
        (1.0, "No loss of more than 5 % in 3/count_sync against ../main."),
        (0.8, "3/count_sync lost more than 5 % of the rate against ../main."),
    ],
)
def test_the_answer_of_a_gate_is_its_verdict(ratio: float, sentence: str) -> None:
    made = gates.plan(gates.THREADS, budget_s=600.0)
    folder = journal.new_run(made.suite)
    journal.save_plan(made, folder)
    journal.append(folder, *gates.records(made, gates.rates(ratio), 10, folder.name))
    root = parsed(rendered(folder))
    first, *_ = (words(item) for item in root.iter("li") if item.get("class") in ("good", "bad"))
    assert first == sentence
