"""`baseline` and `compare_runs`: the exit codes, formats and errors that CI uses."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from offload.engine import journal
from offload.errors import DisturbedError, GateError
from offload.studies.gate import formats, origins
from offload.studies.gate import result as gates
from offload.studies.gate.formats import FORMATS
from tests import ROOT
from tests.bench.experiments.test_kept_runs import a_run
from tests.bench.experiments.test_run import Measured
from tests.bench.gates import THREADS, plan, rates, records
from tests.commands import fab, fab_here
from tests.installed import newest_other_python


def gate_run(
    ratio: float, rounds: int = 160, sd: float = 0.02, min_rate: float | None = None
) -> str:
    """Write a finished run of a gate."""
    made = plan(THREADS, min_rate=min_rate, budget_s=600.0)
    folder = journal.new_run(made.suite)
    journal.save_plan(made, folder)
    journal.append(folder, *records(made, rates(ratio, sd=sd), rounds, folder.name))
    return folder.name


@pytest.mark.parametrize(
    ("ratio", "rounds", "code", "error"),
    [
        (1.0, 40, 0, ""),
        (
            0.8,
            10,
            1,
            "error: 3/count_sync lost more than 5 % of the rate against ../main",
        ),
        (0.95, 160, 7, "error: No verdict on 3/count_sync against ../main"),
    ],
)
def test_the_exit_code_is_the_verdict(ratio: float, rounds: int, code: int, error: str) -> None:
    said = fab_here(f"resume:{gate_run(ratio, rounds=rounds)}")
    report, *errors = said.stderr.splitlines()
    assert (said.returncode, errors) == (code, [error] if error else [])
    assert report.startswith("report: ")
    assert said.stdout.startswith(("No loss of more than 5 % in 3/", "3/count_sync lost", "No v"))
    assert "in every format: " in said.stdout


def test_a_condition_that_does_not_hold_is_red() -> None:
    said = fab_here(f"resume:{gate_run(1.0, 40, min_rate=500.0)}")
    assert said.returncode == GateError.exit_code == 1
    assert said.stderr.splitlines()[1:] == ["error: The condition does not hold: min_rate=500"]
    words = " ".join(said.stdout.split())
    assert "min_rate=500: does not hold; rate(3/count_sync) is " in words
    said = fab_here(f"resume:{gate_run(1.0, min_rate=100.0)}")
    assert said.returncode == DisturbedError.exit_code == 7


@pytest.mark.parametrize("style", FORMATS)
def test_a_finished_gate_is_printed_again_in_any_format(style: str) -> None:
    run = gate_run(0.8, rounds=10)
    said = fab_here(f"resume:{run},format={style}")
    assert said.returncode == 1
    written = (journal.RESULTS / "gate" / FORMATS[style][0]).read_text()
    assert said.stdout.startswith(written)
    assert style == "text" or said.stdout == written


def test_another_run_has_no_format_of_a_gate() -> None:
    folder = a_run("run", (100.0, 100.0))
    said = fab_here(f"resume:{folder.name},format=junit")
    assert (said.returncode, said.stdout) == (2, "")
    assert "no 'junit' in format=" in said.stderr


@pytest.mark.parametrize(
    ("rate", "speed_s", "code"), [(100.0, 0.03, 0), (50.0, 0.03, 1), (80.0, 0.04, 7)]
)
def test_kept_runs_are_compared_without_measuring(rate: float, speed_s: float, code: int) -> None:
    a_run("baseline-main", (100.0, 100.0))
    a_run("run", (100.0, rate), speed_s)
    said = fab_here("compare_runs:main,run=run,format=json")
    assert said.returncode == code
    values = json.loads(said.stdout)
    assert (values["baseline"], values["side_by_side"]) == ("baseline-main", False)
    assert values["smallest_loss"] >= 0.05 - 1e-9
    newest = fab_here("compare_runs:main,gate=5")
    assert newest.returncode == code


@pytest.mark.parametrize(
    ("words", "code"), [("against=nosuch,cases=3/noop_sync", 2), ("nosuch", 6), ("main,gate=x", 2)]
)
def test_a_gate_that_fails_leaves_no_result_of_another_one(words: str, code: int) -> None:
    a_run("baseline-main", (100.0, 100.0))
    a_run("run", (100.0, 100.0))
    assert fab_here("compare_runs:main,run=run").returncode == 0
    folder = journal.RESULTS / "gate"
    assert {path.name for path in folder.iterdir()} == {file for file, _ in FORMATS.values()}
    assert fab_here(f"compare_runs:{words}").returncode == code
    assert [*folder.iterdir()] == []


def test_a_gate_beside_another_one_is_refused_and_keeps_the_results_of_the_other() -> None:
    a_run("baseline-main", (100.0, 100.0))
    a_run("run", (100.0, 100.0))
    commands = "compare_runs:main,run=run", f"resume:{gate_run(1.0, rounds=40)}"
    with formats.reserved():
        path = journal.RESULTS / "gate" / "gate.txt"
        path.write_text("of the other")
        for words in commands:
            said = fab(words)
            assert (said.returncode, said.stdout, said.stderr.count("\n")) == (5, "", 1)
            assert "gate is reserved by a gate of another process: wait until it" in said.stderr
        assert [*path.parent.iterdir()] == [path]
        assert path.read_text() == "of the other"
    assert [fab_here(words).returncode for words in commands] == [0, 0]


def test_a_gate_is_resumed_only_with_the_sides_that_it_began_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noise = rates(0.8, sd=0.02)
    Measured(monkeypatch, lambda trial, place: noise(place, trial.round or 0))
    monkeypatch.setattr(gates.origins, "differences", lambda *_: ["/here (def) instead of /other"])
    run = gate_run(0.8, rounds=3)
    said = fab_here(f"resume:{run}")
    assert (said.returncode, said.stdout) == (2, "")
    assert "at the start /here instead of /other, and now /here (def) instead" in said.stderr
    assert journal.count(journal.RESULTS / run) == 6
    monkeypatch.setattr(gates.origins, "differences", lambda *_: ["/here instead of /other"])
    assert fab_here(f"resume:{run}").returncode == 1
    assert journal.count(journal.RESULTS / run) == 20


def test_the_limit_is_the_users() -> None:
    a_run("baseline-main", (100.0, 100.0))
    a_run("run", (100.0, 80.0))
    codes = {limit: fab_here(f"compare_runs:main,gate={limit}").returncode for limit in (5, 30, 20)}
    assert codes == {5: 1, 30: 0, 20: 7}


WRONG = {
    "compare_runs": (2, "no baseline given: use offload compare_runs NAME, or against= and cases="),
    "compare_runs:main": (6, "no run in"),
    "compare_runs:main,gate=0": (2, "gate='0' is not a number from 0.1 to 90"),
    "compare_runs:main,gate=x": (2, "gate='x' is not a number"),
    "compare_runs:main,budget=1": (2, "budget='1' is not a time from 30 s"),
    "compare_runs:main,format=xml": (2, "no 'xml' in format="),
    "compare_runs:main,users=5": (2, "users= needs against="),
    "compare_runs:main,ensure=1 < 2": (2, "use min_rate=100 and max_p99=50ms"),
    "compare_runs:main,min_rate=x": (2, "min_rate='x' is not a number"),
    "compare_runs:main,max_p99=50": (2, "max_p99='50' is not a response time"),
    "compare_runs:against=.": (2, "no cases given: use offload compare_runs NAME, or cases="),
    "compare_runs:nosuch,against=.": (6, "no baseline 'nosuch' in"),
    "compare_runs:against=.,cases=3/noop_sink": (2, "did you mean noop_sync?"),
    "compare_runs:against=.,cases=3": (2, "is not a case"),
    "compare_runs:against=.,cases=3/noop_sync,run=x": (2, "run= excludes against="),
    "compare_runs:against=.,cases=3/noop_sync,users=0": (2, "users='0'"),
    "compare_runs:against=nosuch,cases=3/noop_sync": (2, "is not a folder, an interpreter"),
    "baseline": (2, "no name given; existing baselines: none: use offload baseline NAME"),
    "baseline:main": (6, "no run in"),
    "baseline:main,run=x": (6, "no run 'x'"),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_one_line_with_its_exit_code_and_leaves_no_run(words: str) -> None:
    code, message = WRONG[words]
    said = fab_here(words)
    assert (said.returncode, said.stderr.count("\n"), said.stdout) == (code, 1, ""), said.stderr
    assert message in said.stderr
    assert [*journal.RESULTS.glob("*/*")] == []


@pytest.mark.server
def test_this_checkout_is_not_compared_with_itself() -> None:
    said = fab_here("compare_runs:against=.,cases=3/noop_sync")
    assert (said.returncode, said.stdout) == (2, "")
    assert "3/noop_sync runs the same code on both sides" in said.stderr


def test_limits_make_a_gate_of_kept_runs_red_or_green() -> None:
    a_run("baseline-main", (100.0, 100.0))
    a_run("run", (100.0, 100.0))
    codes = [fab_here(f"compare_runs:main,min_rate={rate}").returncode for rate in (90, 110)]
    assert codes == [0, 1]


def test_the_cases_of_a_kept_run_are_measured_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates.origins, "differences", lambda *_: ["a instead of b"])
    noise = rates(1.0, 0.8, sd=0.01)
    measured = Measured(monkeypatch, lambda trial, place: noise(place, trial.round or 0))
    a_run("baseline-main", (100.0, 100.0))
    said = fab_here("compare_runs:main,against=.,format=json")
    assert said.returncode == 1, said.stderr
    values = json.loads(said.stdout)
    cases = {case["case"]: case["verdict"] for case in values["cases"]}
    assert cases == {"3/count_sync": "no loss", "4/count_sync": "loss"}
    assert (values["side_by_side"], values["differences"]) == (True, ["a instead of b"])
    assert {indexes: measured.case_indexes.count(indexes) for indexes in measured.case_indexes} == {
        (0, 1): 5,
        (1, 0): 5,
        (2, 3): 5,
        (3, 2): 5,
    }
    [folder] = journal.RESULTS.glob("*-gate")
    assert journal.load_plan(folder).rule.budget_s == 600
    only = fab_here("compare_runs:main,against=.,cases=threads/count_sync")
    assert only.returncode == 0


def test_a_version_of_a_package_reaches_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    create = lambda requirement, *_: made.append(requirement) or sys.executable  # noqa: E731
    monkeypatch.setattr(origins, "create_environment", create)
    said = fab_here("compare_runs:against=tornado==6.4,cases=3/noop_sync,users=2")
    assert (said.returncode, made) == (2, ["tornado==6.4"])
    assert "3/noop_sync runs the same code on both sides" in said.stderr


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["interpreter", "version"])
def test_a_real_gate_against_an_interpreter_or_a_version_names_what_differs(kind: str) -> None:
    against = "tornado==6.4.2"
    if kind == "interpreter":
        if (python := newest_other_python()) is None:
            pytest.skip("needs another Python: see offload pythons")
        against = python.path
    words = "cases=3/count_sync,users=4,budget=60,gate=60,format=json"
    done = fab(f"compare_runs:against={against},{words}", timeout=250)
    if "no package index" in done.stderr:
        pytest.skip("no package index is reachable")
    assert done.returncode in (0, 7), done.stderr
    values = json.loads(done.stdout)
    [case], differences = values["cases"], " ".join(values["differences"])
    assert ("6.4.2" if kind == "version" else "Python") in differences
    assert values["side_by_side"]
    assert 1 / 3 < case["ratio"] < 3
    assert case["verdict"] in ("no loss", "disturbed")  # others may use this machine now
    assert done.returncode == (0 if case["verdict"] == "no loss" else 7)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Copy this checkout; its task count_sync takes twice as long."""
    folder = tmp_path / "other"
    for part in ("src", "servers", "tasks", "pipepool/src"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=ignored)
    task = folder / "tasks" / "known_difference.py"
    text = task.read_text()
    assert "STEPS = 400_000" in text
    task.write_text(text.replace("STEPS = 400_000", "STEPS = 800_000"))
    return folder


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_real_gate_is_green_against_a_slower_checkout_and_red_the_other_way(
    other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "cases=3/count_sync,users=4,budget=120,gate=20,format=json"
    codes = {"no loss": 0, "loss": 1, "disturbed": 7}  # others may use this machine now
    better = fab(f"compare_runs:against={other},{words}", timeout=200)
    [case] = json.loads(better.stdout)["cases"]
    assert case["verdict"] in ("no loss", "disturbed"), better.stderr
    assert better.returncode == codes[case["verdict"]]
    assert case["ratio"] > 1.4
    monkeypatch.setenv("PYTHONPATH", f"{other}/src:{other}/pipepool/src")
    for name in ("fabfile.py", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, other / name)
    worse = fab(f"compare_runs:against={ROOT},{words}", cwd=other, timeout=200)
    [case] = json.loads(worse.stdout)["cases"]
    assert case["verdict"] in ("loss", "disturbed"), worse.stderr
    assert worse.returncode == codes[case["verdict"]]
    assert case["ratio"] < 0.7
