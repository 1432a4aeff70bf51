"""Write the report of one run, or of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offload.bench.records import journal
from offload.reports.html import page, run

FILE = "report.html"


def write(folders: Sequence[Path], path: Path | None = None) -> Path:
    """Write the report of runs and return its path; raise UserError.

    Without a `path`, that of one run is in its folder, and that of several is beside the folders.
    """
    text = page.html([run.read(folder) for folder in folders])
    names = "+".join(folder.name for folder in folders)
    default = folders[0] / FILE if len(folders) == 1 else journal.RESULTS / f"{names}.html"
    target = path or default
    journal.replace(target, text)
    return target
