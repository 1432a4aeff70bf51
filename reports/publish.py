"""Publishing: results.txt in the run's folder, and as the newest beside all runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench import journal
from bench.record import Record
from reports.text import results_txt


def publish(folder: Path, records: Sequence[Record]) -> Path:
    """Write a run's results.txt twice, each in one step; give the path of the newest."""
    text = results_txt(records)
    newest = journal.RESULTS / "results.txt"
    for path in (folder / "results.txt", newest):
        journal.replace(path, text)
    return newest
