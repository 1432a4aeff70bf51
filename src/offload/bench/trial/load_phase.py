"""The load phase: run one load against one server while sampling the server's resources.

Before it, a load of one user shows how long one task holds the GIL.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from offload import loads
from offload.bench.stats.models import gil
from offload.bench.trial import server_report
from offload.bench.trial.builder import GIL
from offload.bench.trial.workload import get
from offload.engine import host, processes, server
from offload.engine.figures import little_ratio
from offload.engine.gil_sampler import NO_SAMPLE, GilSampler, Utilisation
from offload.engine.host import SpeedMeter, load_average
from offload.engine.processes import ResourceSampler
from offload.engine.record import (
    Application,
    Baseline,
    GilFacts,
    LoadFacts,
    Resources,
    Result,
    Share,
    Tasks,
    dataclass_from,
)
from offload.errors import StartError
from offload.flags import LOAD, Flag, Problem
from offload.loads import HERE, Figures, Load, LoadRun, Sender, mask_query
from offload.upstream import Upstream

SHORT_S = (
    0.2  # s of load (a guess): for a shorter one, CPU clocks with ticks of 10 ms are too coarse
)
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class LoadOutcome:
    """The results of a load phase; `gil_state` are the server's facts about its GIL at the end."""

    load: LoadFacts
    result: Result
    resources: Resources
    tasks: Tasks
    gil: GilFacts
    application: Application
    gil_state: Facts
    flags: tuple[Flag, ...]
    problem: Problem | None


def run(
    load: Load,
    driver: str,
    facts: Facts | None,
    upstream: Upstream | None,
    neighbours: Sequence[int] = (),
    sender: Sender = HERE,
    speed: SpeedMeter | None = None,
) -> LoadOutcome:
    """Run `load` with `driver`, from `sender`, and sample the resources of the server.

    `facts` is the server's ready line; None for an external server, whose resources are unknown.
    `neighbours` are the pids of the idle servers of the same block. `speed` measures the speed of
    the CPUs meanwhile.
    """
    ours = [*neighbours, *([] if speed is None else speed.pids)]
    sampled = _run_sampled(load, driver, facts, upstream, ours, sender)
    flags: tuple[Flag, ...] = ()
    if sampled[0].hung:  # siege hangs about once in 22 short runs
        sampled = _run_sampled(load, driver, facts, upstream, ours, sender)
        flags = (Flag("hung", f"{driver} was killed and run again"),)
    ran, sampler, gil_sampler, tries, served = sampled
    problem = ran.result.problem
    if facts is not None:  # requests that a server completed before it ended are not a rate
        problem = server.exit_reason(_pid(facts)) or problem
    measured = ran.result.figures
    fix = ""
    if problem is None and load.arrivals is None and measured.completed == 0:
        problem, fix = f"no request was completed ({_failures(measured)})", "check the responses"
    window = (measured.window_began, measured.window_ended)
    report = _request_report(facts, load.url, *window)
    application = report.get("application") or {}
    gil = gil_sampler.between(*window)
    tool = LoadFacts(
        mask_query(load.url),
        ran.driver,
        ran.version,
        ran.argv,
        ran.model,
        ran.driver_cpu_s,
        ran.driver_busy,
        _output(ran, served),
        hosts=ran.hosts,
        served=served,
        received=ran.received,
        unanswered=ran.unanswered,
    )
    return LoadOutcome(
        tool,
        Result(
            **vars(measured),
            little_ratio=_little_ratio(measured, _measured_load(load, ran)),
            # The upstream counts all tries of a load, not only those of its window.
            tries_per_request=None if load.has_window else _per(tries, measured.completed),
        ),
        _resources(sampler.between(*window), measured, tool, speed),
        _tasks(report),
        GilFacts(
            utilisation=Share(gil.share, gil.low, gil.high),
            switches=gil.switches,
            hold_p75_s=gil.hold_p75_s,
            each=gil.each,
            why=gil.why,
        ),
        dataclass_from(Application, application, "application"),
        {key: report["facts"][key] for key in GIL if key in report.get("facts", {})},
        flags + ran.result.notes,
        None if problem is None else Problem(LOAD, problem, fix),
    )


def with_pin(outcome: LoadOutcome, pin: str | None) -> LoadOutcome:
    """Add the CPUs of the server and of the load tool, if they were limited."""
    return replace(outcome, load=replace(outcome.load, pin=pin))


def _failures(measured: Figures) -> str:
    """Return the numbers of failed requests by kind."""
    known = [f"{kind}: {count}" for kind, count in measured.failed.items() if count]
    return ", ".join(known) or "none failed"


def _resources(
    used: Resources, measured: Figures, tool: LoadFacts, speed: SpeedMeter | None
) -> Resources:
    """Add the figures that are derived from CPU times; for a short load they are unknown."""
    elapsed_s = measured.elapsed_s or 0.0
    cpu_s = None if elapsed_s < SHORT_S else used.cpu_s
    host = replace(
        used.host,
        others_cpu=_others_cpu(used, elapsed_s, tool),
        load_average=load_average(),
        work_s=None
        if speed is None
        else speed.work_s(measured.window_began, measured.window_ended),
    )
    return replace(
        used,
        cpu_ms_per_request=_per(cpu_s, measured.completed, 1000.0),
        cores_used=_per(cpu_s, measured.elapsed_s),
        host=host,
    )


def _tasks(report: Facts) -> Tasks:
    return Tasks(
        slots=report.get("slots"),
        slot_s=report.get("slot_s"),
        wall_s=report.get("task_s"),
        cpu_s=report.get("task_cpu_s"),
        queued_s=report.get("task_queued_s"),
        loop_lag_p50_ms=report.get("loop_lag_p50_ms"),
        loop_lag_p99_ms=report.get("loop_lag_p99_ms"),
        loop_lag_max_ms=report.get("loop_lag_max_ms"),
    )


def _run_sampled(
    load: Load,
    driver: str,
    facts: Facts | None,
    upstream: Upstream | None,
    ours: Sequence[int],
    sender: Sender,
) -> tuple[LoadRun, ResourceSampler, GilSampler, int | None, int | None]:
    """Run the load once; return it with both samplers and two counts.

    `ours` are the pids of other processes of this tool, besides the upstream.
    These are the number of tries in the upstream, and of tasks that the server completed: the
    latter only for a load from several hosts.
    """
    tries = _tries(upstream)
    completed = _completed(load.url, sender)
    pid = None if facts is None else _pid(facts)
    ours = [*ours, *([] if upstream is None else [upstream.pid])]
    counts = processes.open_response_counts(facts or {})
    sampler = ResourceSampler(pid, ours, urlsplit(load.url).port, load.keep_alive, counts)
    with sampler, GilSampler(server_report.with_gils(facts or {})) as gil_sampler:
        ran = loads.run(load, driver, sender)
    served = None if completed is None else _increase(completed, _completed(load.url, sender))
    return ran, sampler, gil_sampler, _growth(tries, _tries(upstream)), served


def _output(ran: LoadRun, served: int | None) -> str:
    """Return the output of the load tool; the server's own count is beside that of hosts."""
    if not ran.hosts or ran.received is None:
        return ran.output
    counted = "unknown" if served is None else f"{served:,}"
    counts = f"{ran.received:,} by the hosts, {counted} by the server itself"
    return f"{ran.output}\nresponses in the whole load: {counts}"


def _measured_load(load: Load, ran: LoadRun) -> Load:
    """Return the load that the figures describe: without the users of hosts that failed."""
    if not ran.hosts:
        return load
    return replace(load, users=sum(host.users for host in ran.hosts if host.problem is None) or 1)


def _completed(url: str, sender: Sender) -> int | None:
    return server_report.completed(url) if sender.hosts else None


def _pid(facts: Facts) -> int:
    return int(str(facts["pid"]))


def _request_report(
    facts: Facts | None, url: str, began: float | None, ended: float | None
) -> Facts:
    """Request a server's report of a window: its facts, its loop's lag and its tasks' times."""
    if facts is None or began is None or ended is None:
        return {}
    return server_report.report_window(facts, url, began, ended)


def _others_cpu(used: Resources, elapsed_s: float, tool: LoadFacts) -> float | None:
    """Return the share of the machine's CPU that other processes took during the load."""
    parts = (used.host.busy_s, used.cpu_s, used.host.own_cpu_s, _cpu_here(tool))
    if None in parts or elapsed_s < SHORT_S:
        return None
    busy, served, own, driver = (float(str(part)) for part in parts)
    available_s = elapsed_s * host.cpu_count()
    return round(max(0.0, busy - served - own - driver) / available_s, 4)


def _cpu_here(tool: LoadFacts) -> float | None:
    """Return the CPU time that the load tool used on this machine."""
    if not tool.hosts:
        return tool.cpu_s
    used = [host.cpu_s for host in tool.hosts if host.is_here]
    return None if None in used else math.fsum(each or 0.0 for each in used)


def _little_ratio(measured: Figures, load: Load) -> float | None:
    """Return X R / c, which is 1 by Little's law in a closed loop without think time; else None.

    If the tool reports the mean number of requests in flight, it is used as X R: in a window of few
    cycles, the requests that ended in the window have response times of an earlier time.
    None also if the mean response time was itself derived by Little's law.
    """
    if load.arrivals is not None or load.think or measured.response.how == "Little's law":
        return None
    if measured.in_flight is not None:
        return round(measured.in_flight / load.users, 4)
    ratio = little_ratio(measured.rate, measured.response.mean_s, load.users)
    return None if ratio is None else round(ratio, 4)


def _per(amount: float | None, count: float | None, scale: float = 1.0) -> float | None:
    return None if amount is None or not count else round(scale * amount / count, 4)


def _increase(before: int, after: int | None) -> int | None:
    """Return the increase of a count; None if the server was replaced in the meantime."""
    return None if after is None or after < before else after - before


def _growth(before: int | None, after: int | None) -> int | None:
    """Return the increase of a count; None if it is 0, because then the task has no retries."""
    return None if after is None or before is None or after == before else after - before


def _tries(upstream: Upstream | None) -> int | None:
    """Request the number of tries that the upstream counted; None if it does not respond."""
    if upstream is None:
        return None
    try:
        return int(json.loads(get(f"{upstream.http}/status"))["flaky_tries"])
    except (StartError, ValueError, KeyError):
        return None


SINGLE_S = 0.5  # s of tasks; at least two tasks
# s between two samples: in 0.5 s 2000 samples, whose standard error is at most 0.011
SINGLE_EVERY = 0.00025
NO_HOLD = Utilisation()
NOT_ALONE = "the server does not report when its tasks started and ended"


@dataclass(frozen=True)
class SingleRequest:
    """The GIL-hold fraction h of a single task, and the means of its clocks in seconds.

    `task_s` is its wall time w_1, `task_cpu_s` the CPU time c_1 of its thread. `blocked_s` is b,
    the time in which it neither ran nor waited for a CPU. None is unknown.
    """

    hold: Utilisation = NO_HOLD
    task_s: float | None = None
    task_cpu_s: float | None = None
    blocked_s: float | None = None


def measure_single_request(
    load: Load, facts: Mapping[str, object], before: Baseline
) -> SingleRequest:
    """Measure a single task on the server that reported `facts`, by a load of one user.

    The result is unknown for external workers that do not report.
    """
    if facts.get("external_workers") and not server_report.process_reports(facts, 0.0, 0.0):
        return SingleRequest(Utilisation(why=str(facts["gil_address_error"])))
    return run_single_requests(load, server_report.with_gils(facts), before.alone_s or 0.0)


def run_single_requests(load: Load, facts: Mapping[str, object], alone_s: float) -> SingleRequest:
    """Run `load` with one user for 0.5 s, or for two tasks if these take longer.

    `alone_s` is the response time of one request. Only samples between the start and the end of a
    task are used, so h does not include the time of HTTP.
    """
    count = max(2, math.ceil(SINGLE_S / max(alone_s, 1e-4)))
    began = time.monotonic()
    with GilSampler(facts, SINGLE_EVERY) as sampler:
        loads.run(replace(load, requests=count), "builtin")
    reported = server_report.report_window(facts, load.url, began, time.monotonic(), with_each=True)
    each = reported.get("each") or []
    hold = sampler.during(sorted((start, end) for start, end in each))
    if not each and hold.why == NO_SAMPLE:
        hold = Utilisation(why=NOT_ALONE)
    task_s, cpu_s, queued_s = (reported.get(f"task{key}_s") for key in ("", "_cpu", "_queued"))
    blocked_s = None
    if task_s is not None and cpu_s is not None and queued_s is not None:
        blocked_s = round(gil.blocked_time(task_s, cpu_s, queued_s), 9)
    return SingleRequest(hold, task_s, cpu_s, blocked_s)
