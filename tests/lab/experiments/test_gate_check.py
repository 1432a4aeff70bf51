"""gate_check measures each gate once, resumes, and fails if a requirement is missed."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lab.experiments import gate_results
from offload.engine import journal
from offload.engine import run as running
from offload.errors import StorageError
from offload.registry import places
from offload.studies.gate import result as gates
from offload.studies.gate.rule import Gate
from tests.bench.experiments.test_run import Measured
from tests.bench.gates import rates

SCRIPT = "lab.experiments.gate_check"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Import the script; the other side is a small folder instead of a copy of this checkout."""
    found = importlib.import_module(SCRIPT)
    monkeypatch.setattr(found, "copy_checkout", lambda base: base / "checkout")
    monkeypatch.setattr(gate_results, "FILE", tmp_path / "gates.jsonl")
    monkeypatch.setattr(places, "cache", lambda: tmp_path)
    monkeypatch.setattr(gates.origins, "differences", lambda *_: ["a instead of b"])
    copy = tmp_path / "gate_check" / "checkout" / "src" / "offload"
    copy.mkdir(parents=True)
    (copy / "__init__.py").touch()
    return found


def faked(monkeypatch: pytest.MonkeyPatch, same: float = 1.0, lost: float = 0.88) -> Measured:
    """Measure ratios of `same` for a case against itself, and `lost` for a seeded 12 %."""
    ratios = {"12": rates(lost), "5": rates(0.95), "": rates(same)}
    kinds: list[str] = []

    def values(trial: Any, place: int) -> dict[str, Any]:
        return {**ratios[kinds[-1]](place, trial.round or 0), "others_cpu": 0.0}

    measured = Measured(monkeypatch, values)
    one_round = running.measure_round

    def noted(cases: Any, *rest: Any) -> Any:
        [path] = {Path(case.task).parent.parent.name for case in cases.values()}
        kinds.append(path)
        return one_round(cases, *rest)

    monkeypatch.setattr(running, "measure_round", noted)
    return measured


def lines(printed: str) -> dict[str, list[str]]:
    return {line.split("  ")[0]: line.split("  ") for line in printed.splitlines()}


@pytest.mark.slow
def test_every_kind_is_measured_once_and_each_requirement_has_a_line(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    measured = faked(monkeypatch)
    assert script.main(["--gates", "6"]) == 0
    printed = capsys.readouterr().out
    assert sorted(path.name for path in journal.RESULTS.iterdir()) == [
        *(f"gate_check-12-{n:03}" for n in (1, 2, 3)),
        "gate_check-5-001",
        *(f"gate_check-AA-{n:03}" for n in range(1, 7)),
    ]
    assert printed.startswith("A/A, 1 of 6: no loss, network_sync_local: ")
    assert "a loss of 5 %, 1 of 1: undecided, quote.py:quote: -5" in printed
    table = lines(printed)
    assert table["A/A, red"][-1] == table["a loss of 12 %, red"][-1] == "passed"
    assert " 0 of 6 (0.0 % to 45.9 %)" in "  ".join(table["A/A, red"])
    assert "resampled, 10 cases, loss 5 %" in table
    plan = journal.load_plan(journal.RESULTS / "gate_check-12-001")
    assert isinstance(plan.rule, Gate)
    assert (plan.rule.gate.loss, plan.rule.budget_s) == (0.05, 600.0)
    done = len(measured.rounds)
    stored = gate_results.FILE.read_text()
    kinds = [json.loads(line)["kind"] for line in stored.splitlines()]
    assert kinds == [*["AA"] * 6, *["12"] * 3, "5"]
    shutil.rmtree(journal.RESULTS)  # another machine has only the stored gates
    assert script.main(["--gates", "6"]) == 0
    assert len(measured.rounds) == done  # nothing is measured again
    assert capsys.readouterr().out == printed
    assert gate_results.FILE.read_text() == stored
    before, now = (Path(case.task.partition(":")[0]).read_text() for case in plan.cases)
    assert ("STEPS = 352000" in before, "STEPS = 400000" in now) == (True, True)


@pytest.mark.parametrize(
    ("same", "lost", "broken"), [(0.8, 0.88, "A/A, red"), (1.0, 1.0, "a loss")]
)
def test_a_missed_requirement_fails(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    same: float,
    lost: float,
    broken: str,
) -> None:
    faked(monkeypatch, same, lost)
    assert script.main(["--gates", "2"]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.endswith("failed")]
    assert failed
    assert all(line.startswith((broken, "resampled")) for line in failed)


def test_an_interrupted_gate_is_continued(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = faked(monkeypatch)
    one_round = script.running.measure_round

    def breaks(cases: Any, trial: Any, *rest: Any) -> Any:
        if trial.round == 4:
            raise KeyboardInterrupt
        return one_round(cases, trial, *rest)

    monkeypatch.setattr(script.running, "measure_round", breaks)
    with pytest.raises(KeyboardInterrupt):
        script.main(["--gates", "1", "--only", "AA"])
    monkeypatch.setattr(script.running, "measure_round", one_round)
    assert script.main(["--gates", "0"]) == 7  # an unfinished gate does not count
    assert [line[-1] for line in lines(capsys.readouterr().out).values()].count("unknown") == 3
    assert script.main(["--gates", "1", "--only", "AA"]) in (0, 7)  # 7: too few rounds to resample
    numbers = [number for _, number, _ in measured.rounds]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert len(numbers) > 4


def test_a_copy_is_created_once_for_each_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = importlib.import_module(SCRIPT)
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("one")
    monkeypatch.setattr(script, "ROOT", root)
    monkeypatch.setattr(script, "PARTS", ("src",))
    first = script.copy_checkout(tmp_path)
    assert (first / "src" / "a.py").read_text() == "one"
    assert script.copy_checkout(tmp_path) == first
    (root / "src" / "a.py").write_text("two")
    second = script.copy_checkout(tmp_path)
    assert second != first
    assert (second / "src" / "a.py").read_text() == "two"


def test_a_gate_of_another_version_is_not_continued(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = faked(monkeypatch)
    folder = journal.RESULTS / "gate_check-AA-001"
    with script.change_to_gate_folder(script.KINDS[0]) as other:
        terms = script.GateTerms(0.05, against=str(other))
        made = gates.gate_plan([script.case_of(script.KINDS[0], 1)], terms, 600.0)
    folder.mkdir()
    journal.save_plan(made, folder)
    monkeypatch.setattr(script, "copy_checkout", lambda base: base / "newer")
    with pytest.raises(StorageError, match="was started by another version of this project: rem"):
        script.main(["--gates", "1", "--only", "AA"])
    assert measured.rounds == []


@pytest.mark.server
def test_it_helps_and_refuses() -> None:
    for words, code in ((["--help"], 0), (["--only", "nosuch"], 2)):
        argv = [sys.executable, "-m", SCRIPT, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
        assert done.returncode == code
        assert "Traceback" not in done.stderr


def test_few_rounds_are_not_resampled() -> None:
    """Some values, drawn again and again, would be red more often than those of a case."""
    rounds = [(100.0, 100.0 + n) for n in range(gate_results.MIN_PAIRS)]
    few, enough = (SimpleNamespace(case="3/x", pairs=each) for each in (rounds[1:], rounds))
    [found] = gate_results.check_resampled([few])
    assert (found.passed, found.measured) == (None, "no case has 20 rounds")
    assert len(gate_results.check_resampled([enough])) == 4


def test_an_unknown_requirement_is_no_success(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = gate_results.FinishedGate(
        kind="AA",
        number=1,
        case="3/x",
        outcome=gates.PASSED,
        verdict="no loss",
        ratio=1.0,
        ratio_low=0.99,
        ratio_high=1.01,
        rounds=10,
        seconds=60.0,
        utc="2026-01-01T00:00:00",
        machine="a CPU",
        pairs=tuple((100.0, 100.0 + n) for n in range(10)),
    )
    gate_results.append(stored, gate_results.FILE)
    assert script.main(["--gates", "0"]) == 7
    outcomes = {name: cells[-1].strip() for name, cells in lines(capsys.readouterr().out).items()}
    assert outcomes["A/A, red"] == "passed"
    assert outcomes["A/A, green"] == "reported"
    assert outcomes["resampled"] == "unknown"


def test_a_damaged_file_is_refused(script: ModuleType) -> None:
    gate_results.FILE.write_text('{"kind": "AA"}\n')
    with pytest.raises(StorageError, match=r"gates\.jsonl cannot be read: .*: remove its damaged"):
        script.main(["--gates", "0"])
