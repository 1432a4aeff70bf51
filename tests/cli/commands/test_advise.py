"""`offload predict` that is interrupted answers by the calls until then; what `advise` refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offload.bench.advice.inputs import (
    overhead_store,
    probe_measurement,
)
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.inputs.probe_measurement import InterruptedProbe
from offload.bench.records import journal
from offload.cli.commands.advise import advise, predict
from offload.cli.program import Exit
from offload.errors import UserError
from tests.bench.advice.scenarios import SHOP
from tests.commands import fab_here

WARNING = "The overheads of the strategies are typical ones"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without runs and without stored overheads; the probe of a function is known."""
    monkeypatch.setattr(journal, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(overhead_store, "_file", lambda: tmp_path / "overheads.json")
    monkeypatch.setattr(probe_measurement, "measure", lambda *_: SHOP)
    return tmp_path / "results"


def test_a_prediction_needs_no_overheads_of_this_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    predict("sleep_sync")
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Use ")
    assert "for quote, by prediction." in text
    assert WARNING in text


def test_an_interrupted_probe_prints_a_prediction_from_the_calls_alone(
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(*_: object) -> None:
        raise InterruptedProbe(replace(SHOP, points=()))

    monkeypatch.setattr(probe_measurement, "measure", measure)
    with pytest.raises(Exit) as ended:
        predict("sleep_sync")
    assert ended.value.code == 130
    text = " ".join(capsys.readouterr().out.split())
    assert "for quote, by prediction." in text
    assert "The function was only called alone" in text
    assert not results.exists() or not [*results.iterdir()]


def test_a_prediction_is_printed_although_the_file_of_the_function_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = tmp_path / "shop.py"
    shop.write_text("def quote(): return b'1'\n")

    def measure(*_: object) -> Probe:
        shop.unlink()
        return replace(SHOP, task=f"{shop}:quote")

    monkeypatch.setattr(probe_measurement, "measure", measure)
    with pytest.raises(UserError, match="no file"):
        predict(f"{shop}:quote", code="flask")
    assert "by prediction." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("rate=0", "rate"),
        ("rate=fast", "rate"),
        ("connections=0", "connections"),
        ("isolate=maybe", "isolate"),
        ("users=2000", "users"),
        ("pythons=3.14", "pythons= is gone"),
        ("budget=5", "budget"),
    ],
)
def test_advise_refuses_bad_requirements_in_one_line(
    option: str, message: str, results: Path
) -> None:
    said = fab_here(f"advise:sleep_sync,{option}")
    assert said.returncode == 2
    assert message in said.stderr
    assert said.stderr.count("\n") == 1
    assert not results.exists()


def test_an_interrupted_probe_has_no_advice(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: object) -> None:
        raise InterruptedProbe(replace(SHOP, points=()))

    monkeypatch.setattr(probe_measurement, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        advise("sleep_sync")
    assert not results.exists() or not [*results.iterdir()]
