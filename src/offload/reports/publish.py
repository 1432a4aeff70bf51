"""Write results.txt to the folder of a run, and a copy to the folder of all results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offload.bench.records import journal
from offload.bench.records.record import Record
from offload.errors import printable
from offload.reports.results_txt import results_txt


def publish(folder: Path, records: Sequence[Record]) -> Path:
    """Write a run's results.txt and its copy in results/; return the path in the run's folder."""
    text = printable(results_txt(records))  # the name of a file may have any bytes
    own = folder / "results.txt"
    for path in (own, journal.RESULTS / "results.txt"):
        journal.replace(path, text)
    return own
