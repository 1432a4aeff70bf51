"""The formats of a gate's result, and the files that every gate writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from offload.bench.experiments.gate import GateResult
from offload.bench.records import journal
from offload.errors import StorageError
from offload.reports.gate.badge import badge
from offload.reports.gate.bencher import bencher
from offload.reports.gate.gate_json import as_json
from offload.reports.gate.junit import junit
from offload.reports.gate.markdown import markdown
from offload.reports.gate.text import text

FOLDER = "gate"  # in results/
FORMATS: dict[str, tuple[str, Callable[[GateResult], str]]] = {
    "text": ("gate.txt", lambda found: f"{text(found)}\n"),
    "json": ("gate.json", as_json),
    "markdown": ("gate.md", markdown),
    "junit": ("junit.xml", junit),
    "bencher": ("bencher.json", bencher),
    "badge": ("badge.json", badge),
}


def render(found: GateResult, style: str) -> str:
    """Render a result in one of FORMATS."""
    return FORMATS[style][1](found)


def publish(found: GateResult) -> Path:
    """Write a result in every format to results/gate; return the folder."""
    folder = journal.RESULTS / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{folder}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
    for name, write in FORMATS.values():
        journal.replace(folder / name, write(found))
    return folder
