"""The committed runs are reported as they were when they were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from offload.documents.results_files import results_txt
from offload.engine import journal
from tests import ROOT
from tests.commands import fab_here

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))
COMMITTED = [
    path
    for path in sorted((ROOT / "results").glob("*/results.txt"))
    if path.parent.name.startswith(("example", "reference"))
]


def test_each_committed_run_has_its_report() -> None:
    runs = {path.parent.name for path in (ROOT / "results").glob("example*/run.json")}
    assert {path.stem for path in GOLDEN} == runs


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_committed_run_is_reported_as_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "RESULTS", ROOT / "results")
    assert fab_here(f"report:{path.stem}").stdout == path.read_text()


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_a_committed_results_txt_is_by_the_current_code(path: Path) -> None:
    assert len(COMMITTED) >= 7
    assert results_txt(journal.read(path.parent)) == path.read_text()
