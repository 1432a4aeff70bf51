"""What the GIL costs a task, in figures and in words, or as JSON."""

from __future__ import annotations

import json

from offload.bench.experiments.gil_cost import GilCost
from offload.bench.records.record import Record
from offload.reports import provenance, warnings
from offload.reports.gil import advice


def text(found: GilCost) -> str:
    """Lay the figures out, and say what follows."""
    figures, visit = found.gil, found.visit
    cost, low, high = found.cost
    hold_ms = None if visit.gil.hold_p75_s is None else 1000 * visit.gil.hold_p75_s
    workers, threads = _count(visit, "worker"), _count(visit, "thread")
    processes = _count(visit, "process", "es")
    head = f"{visit.case.task}, {workers}, Python {provenance.python(visit)}"
    if (who := provenance.gil_came_on(visit)) is not None:
        head += f": {who} turned the GIL on"
    lines = [
        ("h", _share(figures.hold), "of one task in flight, the GIL is held"),
        ("rho", _share(figures.utilisation), "of the load, the GIL is held"),
        ("hold", _milliseconds(hold_ms), "at most in one thread, for three quarters of that"),
        ("gamma", _share(figures.wait_share), "of a call under load, a thread waits for the GIL"),
        ("kappa", _times(figures.inflation), "the CPU time of a call under load, over alone"),
        ("S threads", _times(found.threads.ratio), f"{threads}, over one thread"),
        ("S processes", _times(found.processes.ratio), f"{processes}, over one thread"),
        ("switches", _number(found.threads.switches), "of context a call, in threads"),
        ("loop lag", _milliseconds(visit.tasks.loop_lag_p99_ms), "p99 on threads under load"),
        ("C", _interval(cost, low, high), "1 - threads / processes, by their rates over HTTP"),
        ("C direct", _share(found.cost_direct), "the same by direct calls"),
    ]
    width = max(len(value) for _, value, _ in lines)
    table = "\n".join(f"{name:11}  {value:>{width}}  {words}" for name, value, words in lines)
    unknown = [
        name for name, value in (("h", figures.hold), ("rho", figures.utilisation)) if value is None
    ]
    why = f"\nnot known: {' and '.join(unknown)}: {visit.gil.why}" if unknown else ""
    follows = " ".join(advice.sentences(found))
    last = "\n".join([follows, *_flags(found), f"records: {found.compared.folder}"])
    return f"{head}\n\n{table}{why}\n\n{last}"


def as_json(found: GilCost) -> str:
    """Give the figures as one JSON object; null is not known."""
    figures, visit = found.gil, found.visit
    cost, low, high = found.cost
    return json.dumps(
        {
            "task": visit.case.task,
            "workers": visit.tasks.slots,
            "h": figures.hold,
            "rho": figures.utilisation,
            "gamma": figures.wait_share,
            "kappa": figures.inflation,
            "s_threads": found.threads.ratio,
            "s_processes": found.processes.ratio,
            "switches": found.threads.switches,
            "gil_switches": figures.switches,
            "hold_p75_s": visit.gil.hold_p75_s,
            "cost": cost,
            "cost_low": low,
            "cost_high": high,
            "cost_direct": found.cost_direct,
            "loop_lag_p99_ms": visit.tasks.loop_lag_p99_ms,
            "unavailable": visit.gil.why,
            "interpreter": dict(visit.server.interpreter),
            "follows": list(advice.sentences(found)),
            "flags": _flags(found),
        },
        indent=2,
    )


def _flags(found: GilCost) -> list[str]:
    """Word the doubts about the visit and the pairs."""
    return warnings.counted([found.visit, *found.compared.records], "records")


def _count(visit: Record, noun: str, ending: str = "s") -> str:
    return f"{visit.tasks.slots} {noun}{'' if visit.tasks.slots == 1 else ending}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return _share(value)
    return f"{value:.2f} ({low:.2f} to {high:.2f})"
