"""Probes of functions with known costs, and overheads of a machine with two cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from offload.bench.advice.inputs.call_cost import CallCost
from offload.bench.advice.inputs.overhead import Overhead
from offload.bench.advice.inputs.probe import (
    LOOP,
    PROCESSES,
    THREADS,
    Point,
    Probe,
    ProcessCost,
)
from offload.bench.advice.prediction.model import Model

CORES = 2
OVERHEADS = {  # a call that waits has the same ones
    "loop": Overhead(0.0005, 0.0007),
    "threads": Overhead(0.0007, 0.0009),
    "processes": Overhead(0.0010, 0.0013),
    "pipes": Overhead(0.0006, 0.0009),
    "prefork": Overhead(0.0005, 0.0007),
}


def probe(wait_s: float, cpu_s: float, hold: float = 0.0, **changed: object) -> Probe:
    """Return the probe of a call that waits and computes, with the GIL for a share `hold`."""
    wall_s = wait_s + cpu_s
    both = (CORES, 16)
    in_processes = [min(n / wall_s, CORES / cpu_s) for n in both]
    held_s = hold * wall_s
    in_threads = [min(rate, 1 / held_s if held_s else rate) for rate in in_processes]
    points = [
        *(point(THREADS, n, rate, cpu_s) for n, rate in zip(both, in_threads, strict=True)),
        *(point(PROCESSES, n, rate, cpu_s) for n, rate in zip(both, in_processes, strict=True)),
    ]
    values: dict[str, object] = {
        "task": "quote",
        "python": "3.11.7",
        "gil_enabled": True,
        "is_coroutine": False,
        "cores": CORES,
        "import_s": 0.01,
        "first_s": wall_s,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "queued_s": 0.0,
        "variation": 0.1,
        "hold": hold,
        "body_bytes": 100,
        "results": 1,
        "failed": 0.0,
        "error": None,
        "switches": None,
        "page_faults": None,
        "connections": None,
        "base_mib": 20.0,
        "imported_mib": None,
        "leak_mib": 0.0,
        "threads": 0,
        "python_s": 0.03,
        "points": tuple(points),
    }
    values |= changed
    nested = {"call": _taken(CallCost, values), "process": _taken(ProcessCost, values)}
    return Probe(**values, **nested)  # type: ignore[arg-type]


def _taken(cls: type, values: dict[str, object]) -> Any:
    """Take the values of the fields of a dataclass out of `values`, and return one of them."""
    return cls(**{field.name: values.pop(field.name) for field in fields(cls)})


def point(kind: str, count: int, rate: float, cpu_s: float, **changed: object) -> Point:
    """Return the calls of `count` workers at a rate."""
    values: dict[str, object] = {
        "kind": kind,
        "count": count,
        "rate": rate,
        "wall_s": count / rate,
        "cpu_s": cpu_s,
        "queued_s": 0.0,
        "failed": 0.0,
        "results": 1,
        "worker_mib": 15.0 if kind == PROCESSES else None,
    }
    return Point(**{**values, **changed})  # type: ignore[arg-type]


def coroutine(wait_s: float, cpu_s: float, users: int) -> Probe:
    """Return the probe of a coroutine that awaits."""
    rate = users / (wait_s + users * cpu_s)  # all await together, and then compute sequentially
    known = probe(wait_s, cpu_s, hold=cpu_s / (wait_s + cpu_s), is_coroutine=True)
    points = (*known.points, point(LOOP, users, rate, cpu_s, on_loop_s=cpu_s))
    return Probe(**{**vars(known), "points": points})


def on_several_cores(wall_s: float, cpu_s: float) -> Probe:
    """Return the probe of a call on all cores, which others slow down, processes more than threads.

    The factors are those of a product of two matrices.
    """
    factors = ((THREADS, 1.126, 0.4), (PROCESSES, 4.45, 0.5))
    points = []
    for kind, factor, queued in factors:
        rate = 0.98 * CORES / (factor * cpu_s)
        points += [
            point(kind, n, rate, factor * cpu_s, queued_s=queued * n / rate) for n in (CORES, 4)
        ]
    known = probe(0.0, cpu_s, hold=0.02, points=tuple(points))
    return replace(known, call=replace(known.call, wall_s=wall_s))


def model(known: Probe, users: int = 25, overheads: Mapping[str, Overhead] = OVERHEADS) -> Model:
    """Return the model of a probe on this machine."""
    return Model(known, overheads, users)
