"""Write the report of one run, or of several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from offload.bench.records import journal
from offload.documents import Document
from offload.reports.html import page, run

FILE = "report.html"


def write(folders: Sequence[Path], documents: Mapping[Path, Document]) -> Path:
    """Write the report of runs and return its path; raise UserError. `documents` are by folder.

    It is in the folder of one run, or beside the folders of several runs.
    """
    text = page.html([run.read(folder, documents.get(folder)) for folder in folders])
    names = "+".join(folder.name for folder in folders)
    path = folders[0] / FILE if len(folders) == 1 else journal.RESULTS / f"{names}.html"
    journal.replace(path, text)
    return path
