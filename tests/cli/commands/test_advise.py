"""What `offload advise` refuses, and an interrupt before anything is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from offload.cli.runner import TerminalRunner
from offload.engine import journal
from offload.studies.advise import STUDY, Options, probe_measurement
from tests.commands import fab_here


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without runs."""
    monkeypatch.setattr(journal, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("rate=0", "rate"),
        ("rate=fast", "rate"),
        ("connections=0", "connections"),
        ("isolate=maybe", "isolate"),
        ("users=2000", "users"),
        ("pythons=3.14", "advise has no pythons= any more: repeat the command with python="),
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
        raise KeyboardInterrupt

    monkeypatch.setattr(probe_measurement, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        STUDY.run(Options("sleep_sync"), TerminalRunner())
    assert not results.exists() or not [*results.iterdir()]


def test_predict_is_answered_by_what_replaces_it() -> None:
    said = fab_here("predict:sleep_sync")
    assert (said.returncode, said.stdout) == (2, "")
    assert (
        said.stderr == "error: predict is gone: use offload advise, with budget=30 for less time\n"
    )
