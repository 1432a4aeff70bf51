"""The words of each kind of result, in one snapshot each.

``pytest --snapshot-update tests/reports/test_wording.py`` accepts changed words; read its diff.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
from syrupy.assertion import SnapshotAssertion

from offload.documents.rows import rows
from offload.documents.text import render
from offload.engine import journal
from offload.studies import capacity, measure
from offload.studies.capacity import rule
from offload.studies.gate import formats
from offload.studies.gil import document as gil_document
from offload.studies.scale import curve
from offload.studies.watch import document as watch_document
from offload.studies.watch.diagnosis import Signs
from offload.studies.watch.response_time import Response
from tests import ROOT
from tests.bench.analysis import test_latency_capacity
from tests.commands import fab_here
from tests.reports import test_gate_formats, test_lines, test_watch_lines
from tests.reports.test_tables import windows
from tests.studies import test_gil_document

RUNS = sorted(path.parent.name for path in (ROOT / "results").glob("example*/run.json"))


@pytest.mark.parametrize("command", ["report:{}", "claims:run={}"], ids=["report", "claims"])
@pytest.mark.parametrize("run", RUNS)
def test_a_committed_run_in_words(
    run: str,
    command: str,
    snapshot: SnapshotAssertion,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copytree(ROOT / "results" / run, tmp_path / run)
    monkeypatch.setattr(journal, "RESULTS", tmp_path)
    printed = fab_here(command.format(run)).stdout.replace(str(tmp_path), "/results")
    assert printed == snapshot


def _capacity() -> str:
    records = test_latency_capacity.search(test_latency_capacity.response_times)
    found = rule.evaluate(test_latency_capacity.P99, records)
    return render(capacity.STUDY.document(capacity.Found("threads/noop_sync", found, (), None)))


def _compare() -> str:
    return test_lines.text_of(test_lines.compared_by((10.0, 12.0), (10.2, 12.0), (9.9, 11.9)))


def _gil() -> str:
    return render(gil_document.document(test_gil_document.cost()))


def _measure() -> str:
    full = test_lines.FULL
    [row] = rows([full, *windows(full, 20.0, 20.01, 20.02, 20.01, 20.0)])
    return render(measure.STUDY.document(row))


def _scale() -> str:
    rates = ((workers, min(workers / 0.05, 160.0)) for workers in test_lines.WORKERS)
    return render(curve.document(test_lines.swept(*rates)))


def _watch() -> str:
    process = test_watch_lines.process(5, 1.0, test_watch_lines.on(0.97))
    reading = test_watch_lines.reading(process, response=Response(0.004, 200))
    lines = [watch_document.head(True), watch_document.line(reading, True)]
    return "\n".join((*lines, watch_document.text(test_watch_lines.summed(process), None, Signs())))


@pytest.mark.parametrize("document", [_capacity, _compare, _gil, _measure, _scale, _watch])
def test_an_answer_in_words(document: Callable[[], str], snapshot: SnapshotAssertion) -> None:
    assert document() == snapshot


@pytest.mark.parametrize("name", test_gate_formats.RESULTS)
def test_a_gate_in_words(name: str, snapshot: SnapshotAssertion) -> None:
    found = test_gate_formats.RESULTS[name]()
    assert formats.render(found, "text") == snapshot(name="text")
    assert formats.render(found, "markdown") == snapshot(name="markdown")
