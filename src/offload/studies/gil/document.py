"""The cost of the GIL for a task in words and figures, and for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload import units
from offload.causes import who
from offload.documents import Document, comparisons, lines
from offload.documents.rows import gil_enabled_by, python_name
from offload.engine.record import Record
from offload.studies.gil import advice
from offload.studies.gil.cost import GilCost
from offload.studies.gil.direct_calls import SpeedUp

NOT_MEASURED = ""  # value of the figures of direct calls for a user's application


def document(result: GilCost) -> Document:
    """Return the conclusions, the figures, and on what they are based."""
    figures, window = result.gil, result.window
    several = window.server.processes or 1
    size = _count(window, "worker")
    if several > 1:
        size = f"{several} processes"
        size += f" of {_count(window, 'thread')}" if window.server.workers else ""
    where = f"{window.case.task}, {size}, Python "
    where += python_name(window)
    if (importer := gil_enabled_by(window)) is not None:
        where += f": {importer} turned the GIL on"
    unknown = [
        name for name, value in (("h", figures.hold), ("rho", figures.utilisation)) if value is None
    ]
    why = [f"unknown: {' and '.join(unknown)}: {window.gil.why}"] if unknown else []
    first, *more = sentences(result)
    return Document(
        first,
        ("Figure", "Value", "Meaning"),
        tuple(figure_lines(result)),
        lines(
            *more,
            *who.sentences(window.who),
            f"Measured: {where}",
            *why,
            *comparisons.window_warnings(result.cases),
        ),
        has_verdict=result.cases.comparison.disturbed is None,
        numbers=(1,),
    )


def figure_lines(result: GilCost) -> list[tuple[str, str, str]]:
    """Return the name, the value and the meaning of each figure."""
    figures, window = result.gil, result.window
    cost, low, high = result.cost
    hold_ms = None if window.gil.hold_p75_s is None else 1000 * window.gil.hold_p75_s
    threads, processes = _count(window, "thread"), _count(window, "process", "es")
    found = [
        ("h", _share(figures.hold), "share of a task alone in which the GIL is held"),
        ("rho", _share(figures.utilisation), "share of the load in which the GIL is held"),
        ("rho each", _each(window.gil.each), "the same for each process"),
        ("hold", _milliseconds(hold_ms), "or less, for three quarters of the time the GIL is held"),
        ("gamma", _share(figures.wait_share), "share of a call under load that waits for the GIL"),
        ("kappa", _times(figures.inflation), "CPU time of a call under load over a call alone"),
        ("S threads", _ratio(result.threads), f"rate of {threads} over one thread"),
        ("S processes", _ratio(result.processes), f"rate of {processes} over one thread"),
        ("switches", _switches(result.threads), "context switches per call in threads"),
        (
            "loop lag",
            _milliseconds(window.tasks.loop_lag_p99_ms),
            "p99 of the event loop with threads under load",
        ),
        ("C", _interval(cost, low, high), f"1 - {_compared(result)}, rates over HTTP"),
        ("C direct", _direct(result), "1 - threads / processes, rates of direct calls"),
    ]
    return [line for line in found if line[1] != NOT_MEASURED]


def values(result: GilCost) -> dict[str, object]:
    """Return the figures for JSON; unknown values are None."""
    figures, window = result.gil, result.window
    cost, low, high = result.cost
    return {
        "task": window.case.task,
        "workers": _workers(window),
        "processes": window.server.processes or 1,
        "h": figures.hold,
        "rho": figures.utilisation,
        "rho_each": list(window.gil.each),
        "gamma": figures.wait_share,
        "kappa": figures.inflation,
        "s_threads": result.threads.ratio if result.threads else None,
        "s_processes": result.processes.ratio if result.processes else None,
        "switches": result.threads.switches if result.threads else None,
        "gil_switches": figures.switches,
        "hold_p75_s": window.gil.hold_p75_s,
        "cost": cost,
        "cost_low": low,
        "cost_high": high,
        "cost_direct": result.cost_direct,
        "loop_lag_p99_ms": window.tasks.loop_lag_p99_ms,
        "unavailable": window.gil.why,
        **who.values(window.who),
        "interpreter": dict(window.server.interpreter),
        "follows": list(sentences(result)),
        "flags": comparisons.window_warnings(result.cases),
    }


def _compared(result: GilCost) -> str:
    if not result.window.application.has_loop:
        return "threads / processes"
    several = result.window.server.processes or 1
    one = "one process" if several == 1 else f"{several} processes"
    return f"{one} / {result.cases.other.settings['processes']} processes"


def sentences(result: GilCost) -> Iterator[str]:
    """Return a sentence for each conclusion from the figures."""
    if result.window.application.kind is not None:
        return advice.application_sentences(result)
    return advice.task_sentences(result)


def _count(window: Record, noun: str, ending: str = "s") -> str:
    count = _workers(window)
    return f"{count} {noun}{'' if count == 1 else ending}"


def _workers(window: Record) -> int | None:
    """Return the number of workers of the case with threads (one for an ASGI application)."""
    if window.tasks.slots is not None:
        return window.tasks.slots
    processes = window.server.settings.get("processes")
    return window.server.workers or (processes if isinstance(processes, int) else None)


def _ratio(found: SpeedUp | None) -> str:
    return NOT_MEASURED if found is None else _times(found.ratio)


def _switches(found: SpeedUp | None) -> str:
    return NOT_MEASURED if found is None else _number(found.switches)


def _direct(result: GilCost) -> str:
    return NOT_MEASURED if result.cost_direct is None else _share(result.cost_direct)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _each(shares: Sequence[float]) -> str:
    if len(shares) > advice.MOST_SHARES:
        return f"{shares[-1]:.2f} to {shares[0]:.2f}"
    return " ".join(map(_share, shares)) or NOT_MEASURED


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return _share(value)
    return f"{value:.2f} ({units.interval(low, high)})"
