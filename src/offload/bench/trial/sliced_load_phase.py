"""The load phase of several servers in slices, while the resources of all are sampled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from urllib.parse import urlsplit

from offload import loads
from offload.bench.telemetry.gil_sampler import Utilisation
from offload.bench.telemetry.sampler import ResourceSampler
from offload.bench.trial import load_phase
from offload.bench.trial.load_phase import Facts, LoadOutcome
from offload.loads import Load
from offload.upstream import Upstream

NOT_SAMPLED = Utilisation(why="the GIL is not sampled in slices")


def run(
    loads_of: Sequence[Load],
    order: Sequence[int],
    facts: Sequence[Facts],
    upstream: Upstream | None,
) -> list[LoadOutcome]:
    """Run loads of several servers in slices, one after the other; return the outcome of each.

    `order` has the places of the loads, and `facts` are the ready lines of their servers. A server
    is idle in the slices of the others. So its CPU time is that of all its responses, and the share
    of those in its windows is reported. The GIL is not sampled.
    """
    tries = load_phase.count_tries(upstream)
    ours = [] if upstream is None else [upstream.pid]
    pids = [load_phase.server_pid(each) for each in facts]
    samplers = [
        ResourceSampler(
            pid,
            [*ours, *(other for other in pids if other != pid)],
            urlsplit(load.url).port,
            load.keep_alive,
        )
        for pid, load in zip(pids, loads_of, strict=True)
    ]
    with ExitStack() as stack:
        for sampler in samplers:
            stack.enter_context(sampler)
        ran = loads.run_slices(loads_of, order)
    began = _first(each.result.figures.window_began for each in ran.runs)
    ended = _last(each.result.figures.window_ended for each in ran.runs)
    tried = load_phase.growth(tries, load_phase.count_tries(upstream))
    found = []
    for load, own, known, sampler in zip(loads_of, ran.runs, facts, samplers, strict=True):
        used = sampler.between(began, ended)
        elapsed_s = 0.0 if began is None or ended is None else ended - began
        others_cpu = load_phase.others_cpu(used, elapsed_s, ran.cpu_s)
        share = _share(own.result.figures.completed, own.received)
        used = replace(
            load_phase.with_others(used, others_cpu),
            cpu_s=_scaled(used.cpu_s, share),
            queued_s=_scaled(used.queued_s, share),
        )
        found.append(load_phase.outcome(load, own, known, used, NOT_SAMPLED, tried, None))
    return found


def _first(times: Iterable[float | None]) -> float | None:
    """Return the earliest known time."""
    return min((time for time in times if time is not None), default=None)


def _last(times: Iterable[float | None]) -> float | None:
    """Return the latest known time."""
    return max((time for time in times if time is not None), default=None)


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _scaled(value: float | None, share: float | None) -> float | None:
    return None if value is None or share is None else round(value * share, 4)
