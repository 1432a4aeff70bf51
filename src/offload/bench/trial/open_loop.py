"""Open loops: load one fresh server at fixed request rates, one after another."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import replace

from offload.bench.trial import builder, load_phase, workload
from offload.bench.trial.load_phase import LoadOutcome, SingleRequest
from offload.bench.trial.trial import build_record, measure_baseline
from offload.engine import server
from offload.engine.processes import measure_idle_memory
from offload.engine.record import Record, Trial
from offload.errors import UserError
from offload.loads import Arrivals, Load, Window
from offload.suites import Case, Request
from offload.upstream import Upstream

SHORTEST, LONGEST = 4.0, 10.0  # duration of one load in s
RESPONSES = 200  # minimum number of responses in a load, unless it would exceed LONGEST
WARM = 0.5  # s at the start that are not counted: workers and connections start; a guess
TIMEOUT = 2.0  # times the duration: the queue at twice the capacity is a result and no failure
CONNECTIONS = 256  # upper limit: an open loop opens as many connections as it needs


def seconds(rate: float) -> float:
    """Return the duration in s of a load with `rate` requests/s."""
    return min(LONGEST, max(SHORTEST, RESPONSES / rate))


def measure(
    case: Case,
    arrivals: Sequence[Arrivals],
    trial: Trial,
    upstream: Upstream | None,
    warm_s: float = 0.0,
    duration_s: float | None = None,
    connections: int = CONNECTIONS,
    timeout_s: float | None = None,
) -> Generator[Record]:
    """Start one server, load it with each of `arrivals`, and yield a record of each load.

    Random arrivals differ between the loads of one call, and from round to round.
    Requests of the first `warm_s` seconds of a load are not counted. A load lasts `duration_s`, or
    if that is None, `seconds` of its rate, and opens at most `connections`; a request ends after
    `timeout_s`. The duration of the server's start is in the trial's phases. If the server does not
    start or a load fails, the last record has the problem.
    """
    facts = builder.case_facts(case, upstream)
    began = time.monotonic()
    try:
        running = server.start(case, {} if upstream is None else upstream.environment())
    except UserError as error:
        yield builder.unavailable(trial, facts, case.settings, error)
        return
    try:
        trial = replace(trial, phases={"start": round(time.monotonic() - began, 3)})
        known = builder.server_facts(running.facts)
        sent = case.request or Request()
        url = workload.url(running.url, sent)
        before, flags = measure_baseline(trial, facts, url, sent, running.facts)
        for number, each in enumerate(arrivals):
            lasts_s = seconds(each.rate) if duration_s is None else duration_s
            load = replace(
                workload.load(url, facts, before, sent),
                users=connections,
                seconds=lasts_s,
                timeout=timeout_s or max(Load.timeout, TIMEOUT * lasts_s),
                arrivals=each,
                seed=(trial.seed or 0) + 1000 * (trial.round or 0) + number,
                window=Window(warm=warm_s),
            )
            own = replace(facts, asked_rate=each.rate, seconds=load.seconds)
            placement = case.placement
            loaded = load_phase.run(
                load, "builtin", running.facts, upstream, sender=placement.sender
            )
            loaded = load_phase.with_pin(loaded, placement.pin)
            if number == len(arrivals) - 1:
                loaded = _with_idle_memory(loaded, running.process.pid)
            yield build_record(trial, own, known, before, SingleRequest(), loaded, flags)
    except UserError as error:
        yield builder.unavailable(trial, facts, case.settings, error)
    finally:
        server.stop(running, server.SHORT_DRAIN)


def _with_idle_memory(loaded: LoadOutcome, pid: int) -> LoadOutcome:
    """Add the memory of a server that is idle again."""
    after_mib, collected_mib = measure_idle_memory(pid)
    memory = replace(loaded.resources.memory, after_mib=after_mib, collected_mib=collected_mib)
    return replace(loaded, resources=replace(loaded.resources, memory=memory))
