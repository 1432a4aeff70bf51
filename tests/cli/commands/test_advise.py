"""`offload advise` that is interrupted before any server is measured answers by the prediction."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from invoke import Context, Exit

from offload.bench.advice.inputs import (
    overhead_measurement,
    overhead_store,
    probe_measurement,
    typical_overhead,
)
from offload.bench.advice.inputs.overhead_measurement import Overheads
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.inputs.probe_measurement import InterruptedProbe
from offload.bench.records import journal
from offload.cli.commands.advise import advise, predict
from tests.bench.advice.scenarios import SHOP

WARNING = "The overheads of the strategies are typical ones"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without runs and without stored overheads; the probe of a function is known."""
    monkeypatch.setattr(journal, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(overhead_store, "_file", lambda: tmp_path / "overheads.json")
    monkeypatch.setattr(probe_measurement, "measure", lambda *_: SHOP)
    return tmp_path / "results"


def test_an_interrupt_while_the_overheads_are_measured_prints_the_prediction(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(overhead_measurement, "measure", interrupt)
    with pytest.raises(Exit) as ended:
        advise(Context(), "sleep_sync")
    assert (ended.value.code, str(ended.value)) == (130, "interrupted")
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Use ")
    assert "for quote, by prediction." in text
    assert WARNING in text
    assert "Records:" not in text
    assert not [*results.iterdir()]


def test_a_prediction_needs_no_overheads_of_this_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    predict(Context(), "sleep_sync")
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Use ")
    assert "for quote, by prediction." in text
    assert WARNING in text


@pytest.mark.parametrize("command", [advise, predict])
def test_an_interrupted_probe_prints_a_prediction_from_the_calls_alone(
    command: Callable[..., None],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(*_: object) -> None:
        raise InterruptedProbe(replace(SHOP, points=()))

    monkeypatch.setattr(probe_measurement, "measure", measure)
    with pytest.raises(Exit) as ended:
        command(Context(), "sleep_sync")
    assert ended.value.code == 130
    text = " ".join(capsys.readouterr().out.split())
    assert "for quote, by prediction." in text
    assert "The function was only called alone" in text
    assert not results.exists() or not [*results.iterdir()]


def test_an_interrupt_while_another_python_is_probed_prints_the_prediction(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    probes = iter([SHOP])

    def measure(*_: object) -> Probe:
        for probe in probes:
            return probe
        raise KeyboardInterrupt

    overheads = Overheads(typical_overhead.TYPICAL)
    monkeypatch.setattr(probe_measurement, "measure", measure)
    monkeypatch.setattr(overhead_store, "load_or_measure", lambda *_: overheads)
    with pytest.raises(Exit) as ended:
        advise(Context(), "sleep_sync", pythons=sys.executable)
    assert ended.value.code == 130
    text = " ".join(capsys.readouterr().out.split())
    assert "for quote, by prediction." in text
    assert WARNING not in text


def test_a_prediction_is_printed_although_the_file_of_the_function_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = tmp_path / "shop.py"
    shop.write_text("def quote(): return b'1'\n")

    def measure(*_: object) -> Probe:
        shop.unlink()
        return replace(SHOP, task=f"{shop}:quote")

    monkeypatch.setattr(probe_measurement, "measure", measure)
    with pytest.raises(Exit, match="no file"):
        predict(Context(), f"{shop}:quote", code="flask")
    assert "by prediction." in " ".join(capsys.readouterr().out.split())
