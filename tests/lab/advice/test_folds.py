"""The table of the measured checks is small, and has the figures of the page on advice."""

from __future__ import annotations

from pathlib import Path

from lab.advice import folds, judgement_text
from offload.reports.tables import text_table
from tests import ROOT

LARGEST = 3_000_000  # bytes


def test_the_table_is_small_and_has_every_set(tmp_path: Path) -> None:
    assert folds.TABLE.stat().st_size <= LARGEST
    assert folds._unpack(tmp_path) == ["1", "2", "3", "4", "5", "short"]
    files = [len([*(tmp_path / name).rglob("advice.json")]) for name in ("1", "short")]
    assert files == [10, 10]


def test_the_page_has_the_figures_of_the_table() -> None:
    name, found = next(folds.evaluate())
    assert (name, len(found.truths), len(found.answers)) == ("1", 10, 10)
    text = judgement_text.text(found, text_table.RST)
    assert len(text) > 2000
    assert text in (ROOT / "lab" / "advice.rst").read_text()
