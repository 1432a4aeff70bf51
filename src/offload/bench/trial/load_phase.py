"""One load against one running server: run it, watch the server, fill the record in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

import psutil

from offload import loads
from offload.bench.records.record import Record
from offload.bench.stats import operational_laws
from offload.bench.telemetry.gil_sampler import Meter
from offload.bench.telemetry.host import environment, load_average
from offload.bench.telemetry.sampler import Watch
from offload.bench.trial import builder, flags
from offload.bench.trial.warmup import get
from offload.errors import StartError
from offload.loads import Load, Ran
from offload.upstream import Upstream

INSIDE = (
    *("loop_lag_p50_ms", "loop_lag_p99_ms", "loop_lag_max_ms"),
    *("slots", "slot_s", "task_cpu_s", "task_s", "task_queued_s"),
)
SHORT = 0.2  # s of load: in less, CPU clocks with ticks of 10 ms say nothing; a guess
Facts = Mapping[str, object]


def measure_load(
    record: Record, load: Load, driver: str, facts: Facts | None, upstream: Upstream | None
) -> Record:
    """Run `load` with `driver` while watching a server; give the record with its figures.

    `facts` are what the server said when it was ready; of one that said nothing, None, no resources
    are known.
    """
    ran, watch, meter, tries = _watched(load, driver, facts, upstream)
    notes: tuple[str, ...] = ()
    if ran.hung:  # siege does, about once in 22 short runs
        ran, watch, meter, tries = _watched(load, driver, facts, upstream)
        notes = (f"hung: {driver} was killed and run again",)
    measured = asdict(ran.measured)
    notes += measured.pop("notes")
    window = (measured["window_began"], measured["window_ended"])
    used, utilised = watch.between(*window), meter.between(*window)
    said = _said(facts, load.url, *window)
    is_short = (ran.measured.elapsed_s or 0.0) < SHORT
    server_cpu_s = None if is_short else used.server_cpu_s
    record = replace(
        record,
        **{**measured, **asdict(used), **{key: said.get(key) for key in INSIDE}},
        **{**utilised.fields("utilisation"), "gil_why": utilised.why or record.gil_why},
        gil_switches=utilised.switches,
        gil_hold_p75_s=utilised.hold_p75_s,
        interpreter={**record.interpreter, **_gil_state(said)},
        driver=ran.driver,
        driver_version=ran.version,
        argv=ran.argv,
        model=ran.model,
        driver_cpu_s=ran.driver_cpu_s,
        output=ran.output,
        flags=record.flags + notes,
        little_ratio=_little_ratio(ran.measured, load),
        cpu_ms_per_request=_per(server_cpu_s, ran.measured.completed, 1000.0),
        cores_used=_per(server_cpu_s, ran.measured.elapsed_s),
        tries_per_request=_per(tries, ran.measured.completed),
        environment=environment(),
        load_average=load_average(),
    )
    record = replace(record, others_cpu=_others_cpu(record))
    return replace(record, flags=record.flags + flags.trial_flags(record))


def _watched(
    load: Load, driver: str, facts: Facts | None, upstream: Upstream | None
) -> tuple[Ran, Watch, Meter, int | None]:
    """Run the load once, with what the server used and the upstream was asked meanwhile."""
    tries = _tries(upstream)
    pid = None if facts is None else int(str(facts["pid"]))
    below = None if upstream is None else upstream.pid
    port = urlsplit(load.url).port if load.keep_alive else None
    with Watch(pid, below, port) as watch, Meter(facts or {}) as gil:
        ran = loads.run(load, driver)
    return ran, watch, gil, _growth(tries, _tries(upstream))


def _said(
    facts: Facts | None, url: str, began: float | None, ended: float | None
) -> dict[str, Any]:
    """Ask one of our servers for its facts, its loop's lag and its tasks' clocks in a window."""
    if facts is None or began is None or ended is None:
        return {}
    try:
        asked = urljoin(url, f"/resources/?from={began:.6f}&to={ended:.6f}")
        said: dict[str, Any] = json.loads(get(asked))
    except (StartError, ValueError):  # it may have died, which the load has counted
        return {}
    return said


def _gil_state(said: Mapping[str, Any]) -> dict[str, object]:
    """Give the state of the GIL after the load, as the server and its workers found it."""
    facts = said.get("facts", {})
    return {key: facts[key] for key in builder.GIL if key in facts}


def _others_cpu(record: Record) -> float | None:
    """Give the share of the machine's CPU that went to nobody of ours while it was loaded."""
    driver_s = record.driver_cpu_s
    if record.driver_busy is not None and record.elapsed_s is not None:  # it has a window
        driver_s = record.driver_busy * record.elapsed_s
    parts = (record.busy_s, record.server_cpu_s, record.own_cpu_s, driver_s)
    cores = psutil.cpu_count()
    if None in parts or (record.elapsed_s or 0.0) < SHORT or not cores:
        return None
    busy, server, own, driver, elapsed_s = (float(str(part)) for part in (*parts, record.elapsed_s))
    return round(max(0.0, busy - server - own - driver) / (elapsed_s * cores), 4)


def _little_ratio(measured: loads.Measured, load: Load) -> float | None:
    """X R / c, which Little's law says is 1 in a closed loop without thinking; None elsewhere.

    X R is the mean number of requests under way, where the tool tells that: in a window of few
    cycles the mean of what ended within it is of an earlier time. A mean that was derived by that
    law cannot be checked by it.
    """
    if load.rate is not None or load.think or measured.response_how == "Little's law":
        return None
    if measured.in_flight is not None:
        return round(measured.in_flight / load.users, 4)
    ratio = operational_laws.little_ratio(measured.rate, measured.response_mean_s, load.users)
    return None if ratio is None else round(ratio, 4)


def _per(amount: float | None, count: float | None, scale: float = 1.0) -> float | None:
    return None if amount is None or not count else round(scale * amount / count, 4)


def _growth(before: int | None, after: int | None) -> int | None:
    """Give by how much a count grew; None where it did not grow, for a task that does not retry."""
    return None if after is None or before is None or after == before else after - before


def _tries(upstream: Upstream | None) -> int | None:
    """Ask the upstream how often it was tried; None when it does not answer."""
    if upstream is None:
        return None
    try:
        return int(json.loads(get(f"{upstream.http}/status"))["flaky_tries"])
    except (StartError, ValueError, KeyError):
        return None
