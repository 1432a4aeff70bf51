"""Probes of functions with known costs, on two cores."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from offload.studies.advise.probe import LOOP, PROCESSES, THREADS, Call, Point, Probe

CORES = 2


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
        "is_coroutine": False,
        "cores": CORES,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "queued_s": 0.0,
        "variation": 0.1,
        "hold": hold,
        "results": 1,
        "failed": 0.0,
        "imported_mib": None,
        "leak_mib": 0.0,
        "python_s": 0.03,
        "points": tuple(points),
    }
    values |= changed
    call: Any = {field.name: values.pop(field.name) for field in fields(Call)}
    return Probe(**values, call=Call(**call))  # type: ignore[arg-type]


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
