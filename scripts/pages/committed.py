"""The committed run from which all pages take their ratios, so that each pair has one ratio."""

from __future__ import annotations

from offload.documents import comparisons
from offload.documents.comparisons import Effect
from offload.documents.rows import measured_when, rows
from offload.engine import journal
from scripts.script import ROOT

RESULTS = ROOT / "results"
RUN = "example-tornado" if (RESULTS / "example-tornado").exists() else "example"


def gil_effects() -> list[Effect]:
    """Return the GIL effects of the run, the largest ratio first."""
    return comparisons.effects(rows(journal.read(RESULTS / RUN)))


def measured_where() -> str:
    """Return the date and the machine of the run, as the end of a sentence."""
    sentence = measured_when(rows(journal.read(RESULTS / RUN)))
    return f"{sentence[0].lower()}{sentence[1:]}"
