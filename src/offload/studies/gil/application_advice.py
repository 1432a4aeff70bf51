"""Advice from the GIL cost of a user's application, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.causes import diagnosis, execution, victims
from offload.causes.rules import Cause
from offload.engine import decisions
from offload.engine.record import Record
from offload.registry import catalog
from offload.studies.gil import advice
from offload.studies.gil.cost import GilCost
from offload.units import percent

WSGI = "wsgi"


def sentences(result: GilCost) -> Iterator[str]:
    """Yield a sentence for each conclusion from the figures."""
    window, verdict = result.window, result.cases.comparison.verdict
    if verdict.outcome == decisions.DISTURBED:
        yield f"No verdict: {result.cases.comparison.disturbed}."
        return
    sizes = result.cases.other.settings
    many = f"{sizes.get('processes', sizes.get('workers'))} processes"
    several = window.server.processes or 1
    one = "one process" if several == 1 else f"{several} processes"
    is_tokens = catalog.find_server(window.case.server).workers_are == "tokens"
    if window.application.kind == WSGI or is_tokens:
        one += " with threads"
    causes = diagnosis.diagnose([window])
    yield from advice.uneven(window)
    users = window.case.users
    yield from (diagnosis.sentence(c, users) for c in causes if c.kind == execution.GIL_IMPORT)
    if verdict.outcome == decisions.FASTER:
        yield f"{many} have {verdict.ratio:.2f} times the rate of {one}."
        yield from _reasons(window, causes)
    elif verdict.outcome in (decisions.SAME, decisions.TINY):
        yield f"{many} and {one} differ too little to matter: use {one}."
    elif verdict.outcome == decisions.SLOWER:
        yield f"{many} are slower than {one}: use {one}."
    else:
        yield f"The difference between {many} and {one} is unresolved."
    yield from victims.sentences([window], {cause.kind for cause in causes})


def _reasons(window: Record, causes: Sequence[Cause]) -> Iterator[str]:
    """Yield the limits of one process, as sentences."""
    rho = window.gil.utilisation.value
    if window.server.interpreter.get("gil_enabled") is False:
        yield "The GIL is off, so something else limits one process."
    elif rho is None:
        yield f"Whether the GIL is the cause is unknown: {window.gil.why}."
    elif execution.is_gil_full(rho):
        yield "The GIL is the limit of one process: use several, or a free-threaded build."
        return
    else:
        yield f"The GIL is held for {percent(rho)} of the time, so it is part of the cause at most."
    users = window.case.users
    yield from (diagnosis.sentence(c, users) for c in causes if diagnosis.is_per_process(c))
