"""Write the report of one run, or of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offload.bench.records import journal
from offload.reports.html import page, run

FILE = "report.html"


def write(folders: Sequence[Path]) -> Path:
    """Write the report of runs and return its path; raise UserError.

    It is in the folder of one run, or beside the folders of several runs.
    """
    text = page.html([run.read(folder) for folder in folders])
    names = "+".join(folder.name for folder in folders)
    path = folders[0] / FILE if len(folders) == 1 else journal.RESULTS / f"{names}.html"
    journal.replace(path, text)
    return path
