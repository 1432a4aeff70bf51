"""Advice from the GIL cost of a user's application, as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from offload.bench.analysis.application_signs import SATURATED
from offload.bench.experiments.gil_cost import GilCost
from offload.bench.records.record import Record
from offload.bench.stats import paired_test
from offload.units import percent

WSGI = "wsgi"


def sentences(result: GilCost) -> Iterator[str]:
    """Yield the conclusions from the figures, one sentence each."""
    window, verdict = result.window, result.cases.comparison.verdict
    if verdict.outcome == paired_test.DISTURBED:
        yield f"No verdict: {result.cases.comparison.disturbed}."
        return
    [count] = result.cases.other.settings.values()
    many = f"{count} processes"
    one = "one process with threads" if window.application.kind == WSGI else "one process"
    if (importer := window.server.interpreter.get("gil_enabled_by")) is not None:
        yield f"The import of {importer} switched the GIL on."
    if verdict.outcome == paired_test.FASTER:
        yield f"{many} have {verdict.ratio:.2f} times the rate of {one}."
        yield _cause(window)
    elif verdict.outcome in (paired_test.SAME, paired_test.TINY):
        yield f"{many} and {one} differ by less than matters: use one process."
    elif verdict.outcome == paired_test.SLOWER:
        yield f"{many} are slower than {one}: use one process."
    else:
        yield f"The difference between {many} and {one} is unresolved."


def _cause(window: Record) -> str:
    """Return the sentence on what limits the one process."""
    rho = window.gil.utilisation.value
    if window.server.interpreter.get("gil_enabled") is False:
        return "The GIL is off, so something else limits one process."
    if rho is None:
        return f"Whether the GIL is the cause is unknown: {window.gil.why}."
    if rho >= SATURATED:
        return "The GIL is the limit of one process: use several, or a free-threaded build."
    if window.application.kind == WSGI:
        held = f"The GIL is held for {percent(rho)} of the time"
        return f"{held}, so it is part of the cause at most."
    return (
        f"The GIL is held for {percent(rho)} of the time: the event loop waits in calls that block "
        "it, which threads would also fix."
    )
