"""The committed run by which all pages have their ratios, so that a pair has one everywhere."""

from __future__ import annotations

from _script import ROOT

from offload.bench.records import journal
from offload.reports.gil import effects
from offload.reports.gil.effects import Effect
from offload.reports.rows import rows

RESULTS = ROOT / "results"
RUN = "example-tornado" if (RESULTS / "example-tornado").exists() else "example"


def gil_effects() -> list[Effect]:
    """Return the GIL effects of the run, the largest ratio first."""
    return effects.effects(rows(journal.read(RESULTS / RUN)))
