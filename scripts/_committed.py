"""The committed run whose GIL effects all pages report, so that their ratios agree."""

from __future__ import annotations

from _script import ROOT

from offload.bench.records import journal
from offload.reports.gil import effects
from offload.reports.gil.effects import Effect
from offload.reports.rows import rows
from offload.reports.tables import summary

RESULTS = ROOT / "results"
RUN = "example-tornado" if (RESULTS / "example-tornado").exists() else "example"


def gil_effects() -> list[Effect]:
    """Return the GIL effects of the run, the largest ratio first."""
    return effects.effects(rows(journal.read(RESULTS / RUN)))


def measured_where() -> str:
    """Return when and on which machine the run was measured, as the end of a sentence."""
    sentence = summary.when(rows(journal.read(RESULTS / RUN)))
    return f"{sentence[0].lower()}{sentence[1:]}"
