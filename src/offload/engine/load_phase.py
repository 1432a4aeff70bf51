"""One load against one server, with samples of its resources and its GIL; and the requests before.

First come single requests, which must succeed, and a load of one user that shows how long one task
holds the GIL. After the load the server reports its figures of the window.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from offload import loads
from offload.engine import host, intervals, processes, server, sockets, workload
from offload.engine.application import Application
from offload.engine.figures import little_ratio
from offload.engine.gil_sampler import NO_SAMPLE, GilSampler, Utilisation
from offload.engine.host import load_average
from offload.engine.light_route import NO_PATHS, LightPaths, Prober
from offload.engine.other_programs import ProgramSampler
from offload.engine.processes import ResourceSampler
from offload.engine.record import (
    Baseline,
    CaseFacts,
    GilFacts,
    LoadFacts,
    Resources,
    Result,
    Share,
    Tasks,
    Trial,
    dataclass_from,
)
from offload.engine.server_reports import (
    Facts,
    count_completed,
    count_own_calls,
    last_error,
    members,
    process_reports,
    report_window,
    request_reports,
    server_pid,
    serves_application,
    with_gils,
)
from offload.engine.workload import (
    ENOUGH_S,
    FIRST_REQUESTS,
    BadStatus,
    FailedRequest,
    FirstResponses,
    send_first_requests,
)
from offload.errors import LOAD, STALLED, Flag, Problem, StartError
from offload.loads import HERE, Figures, Load, LoadRun, Sender, mask_query
from offload.registry import catalog
from offload.suites import Case, Request, load_suite
from offload.upstream import Upstream

FIRST_REQUESTS_LATER = 2  # in later rounds of a block; the first round has FIRST_REQUESTS
MORE_MEMORY = "raise the limit of memory, or use fewer processes, threads or users"
FACTOR = 2.0  # a guess: the first request may take twice as long, because it prepares the task


def measure_baseline(
    trial: Trial,
    case: CaseFacts,
    url: str,
    request: Request,
    server_facts: Mapping[str, object],
    is_known: bool = False,
) -> tuple[Baseline, tuple[Flag, ...]]:
    """Measure the first requests to a new server, whose ready line is `server_facts`.

    One slow request is enough in later rounds, or if its response time alone `is_known`.
    Raise StartError if one of them fails, and TooSlowError if the users of the case would wait for
    longer than the timeout of a request.
    """
    is_again = (trial.round or 0) > 1
    times = FIRST_REQUESTS_LATER if is_again or is_known else FIRST_REQUESTS
    longest_s = FACTOR * workload.longest_alone_s(case, server_facts)
    if is_again or is_known:
        longest_s = ENOUGH_S
    try:
        first = send_first_requests(url, times, request, longest_s)
    except FailedRequest as error:
        if not serves_application(server_facts):
            raise
        failure, with_stacks = error, isinstance(error.__cause__, TimeoutError)
        if isinstance(error, BadStatus):
            failure = _application_error(error, request, server_facts)
        report = report_window(server_facts, url, 0.0, 0.0, with_stacks=with_stacks)
        known = report.get("application", {})
        failure.application = dataclass_from(Application, known)
        raise failure from None
    if not is_again:
        workload.check_timeout(case, server_facts, first.alone_s)
    needs_kept = case.keep_alive and not is_again
    keep_alive_s = workload.keep_alive_s(url, first.alone_s, request) if needs_kept else None
    baseline_flags: tuple[Flag, ...] = ()
    if not first.stable and catalog.has_constant_bodies(case.task, case.path):
        remedy = "if this is intended, set STABLE = False in the task's file"
        baseline_flags = (Flag("bodies", "responses change", remedy),)
    found = Baseline(
        alone_s=round(first.alone_s, 6),
        each_s=tuple(round(each_s, 6) for each_s in first.each_s),
        first_s=None if first.first_s is None else round(first.first_s, 6),
        keep_alive_s=None if keep_alive_s is None else round(keep_alive_s, 6),
        body_sha256=first.body_sha256,
        body_bytes=len(first.body),
        is_stable=is_stable(first, case),
        content=comparable_content(trial.suite, first.body),
    )
    return found, baseline_flags


def _application_error(
    error: BadStatus, request: Request, server_facts: Mapping[str, object]
) -> FailedRequest:
    """Return the error for a request to a user's application whose status is not a success."""
    if error.status == 404:
        missing = f"the application has no {request.method} {loads.mask_query(request.path)}"
        return FailedRequest(f"{missing} (status 404)", "name one of its paths by request=/path")
    raised = last_error(server_facts)
    why = f" ({request.message.mask(raised, request.path)})" if raised else ""
    fix = "fix it, or send another request by request=, method=, body= and header="
    return FailedRequest(f"{error.what}{why}", fix)


def is_stable(first: FirstResponses, case: Case | CaseFacts) -> bool:
    """Whether every response must have the same body as the first one."""
    return first.stable and catalog.has_checked_bodies(case.task, case.path)


WHOLE_CONTENT = 160  # characters; a longer content is replaced by its start and a hash


def comparable_content(suite: str | None, body: bytes) -> str | None:
    """Return the result of a suite's `extract(body)`; None if the suite does not define it.

    Raise StartError if `extract` cannot read the body, for example an error with status 200.
    """
    if suite is None or suite not in catalog.suites():
        return None
    extract = getattr(load_suite(suite), "extract", None)
    if extract is None:
        return None
    try:
        text = str(extract(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = body[:WHOLE_CONTENT].decode(errors="replace")
        raise StartError(f"the response cannot be read by suites/{suite}.py: {text}") from error
    if len(text) <= WHOLE_CONTENT:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    return f"{text[:WHOLE_CONTENT]}... {len(text)} characters, sha256 {digest}"


SHORT_S = (
    0.2  # s of load (a guess): for a shorter one, CPU clocks with ticks of 10 ms are too coarse
)
GIL = ("gil_enabled", "gil_enabled_by")  # facts that an import may change


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
    pin: str | None = None,
    beside: LightPaths = NO_PATHS,
) -> LoadOutcome:
    """Run `load` with `driver`, from `sender`, and sample the resources of the server.

    `facts` is the server's ready line; None for an external server, whose resources are unknown.
    `neighbours` are the pids of the idle servers of the same block. `pin` are the CPUs of the
    server and of the load tool, if they are limited. The light routes `beside` are requested
    sparsely at the same time.
    """
    prober = Prober(load.url, beside)
    with prober:
        sampled = _run_sampled(load, driver, facts, upstream, neighbours, sender)
    flags: tuple[Flag, ...] = ()
    if sampled.ran.hung:  # siege hangs about once in 22 short runs
        sampled = _run_sampled(load, driver, facts, upstream, neighbours, sender)
        flags = (Flag("hung", f"{driver} was killed and run again"),)
    ran, measured = sampled.ran, sampled.ran.result.figures
    window = (measured.window_began, measured.window_ended)
    with_stacks = ran.result.is_stalled or bool(measured.failures)
    report = _request_report(facts, load.url, *window, with_stacks, beside)
    application = _application(report.get("application") or {}, sampled)
    light = prober.between(*window, measured.completed or 0)
    gil = sampled.gil.between(*window)
    tool = LoadFacts(
        url=mask_query(load.url),
        driver=ran.driver,
        version=ran.version,
        argv=ran.argv,
        model=ran.model,
        cpu_s=ran.driver_cpu_s,
        busy=ran.driver_busy,
        output=_output(ran, sampled.served),
        pin=pin,
        hosts=ran.hosts,
        served=sampled.served,
        received=ran.received,
        unanswered=ran.unanswered,
    )
    return LoadOutcome(
        tool,
        Result(
            **vars(measured),
            little_ratio=_little_ratio(measured, _measured_load(load, ran)),
        ),
        _resources(
            sampled.resources.between(*window),
            measured,
            tool,
            sampled.programs,
            window,
        ),
        _tasks(report),
        GilFacts(
            utilisation=Share(gil.share, gil.low, gil.high),
            switches=gil.switches,
            hold_p75_s=gil.hold_p75_s,
            each=gil.each,
            why=gil.why,
        ),
        replace(application, beside=light),
        {key: report["facts"][key] for key in GIL if key in report.get("facts", {})},
        flags + ran.result.notes,
        _find_problem(load, facts, sampled),
    )


def _find_problem(load: Load, facts: Facts | None, sampled: _SampledLoad) -> Problem | None:
    """Return why a load has no result: the load tool's reason, or what the server did."""
    result = sampled.ran.result
    measured, what, fix = result.figures, result.problem, ""
    # Requests that a server completed before it ended are not a rate.
    if facts is not None and (ended := server.exit_reason(server_pid(facts))) is not None:
        done = f", after {measured.completed} responses" if measured.completed else ""
        what = f"{ended} under {load.users} users{done}"
        fix = "start it by its own program under the same load, and read its log"
    limit = sampled.resources.memory_limit()
    if what is not None and limit.kills:
        what, fix = f"{what}: {limit.text}", MORE_MEMORY
    if what is not None and result.is_stalled:
        what = f"{what} under {load.users} users ({failures_text(measured)})"
    if what is None and load.arrivals is None and measured.completed == 0:
        what = f"no request was completed ({failures_text(measured)})"
        fix = "check the responses"
    return None if what is None else Problem(STALLED if result.is_stalled else LOAD, what, fix)


def _application(reported: dict[str, Any], sampled: _SampledLoad) -> Application:
    """Return the reports of a user's application, with what was seen from outside."""
    failing = reported.get("failing", {})
    if reported and sampled.pids:
        failing["ended"] = sum(server.exit_reason(pid) is not None for pid in sampled.pids)
    if reported and sampled.own_calls:
        mean = statistics.fmean(sampled.own_calls)
        failing["own_calls"] = round(max(mean, failing["own_calls"] or 0), 3)
    return dataclass_from(Application, reported)


def failures_text(measured: Figures) -> str:
    """Return the numbers of failed requests by kind."""
    known = [f"{kind}: {count}" for kind, count in measured.failed.items() if count]
    return ", ".join(known) or "none failed"


def _resources(
    used: Resources,
    measured: Figures,
    tool: LoadFacts,
    programs: ProgramSampler,
    window: tuple[float | None, float | None],
) -> Resources:
    """Add the figures that are derived from CPU times; for a short load they are unknown."""
    elapsed_s = measured.elapsed_s or 0.0
    cpu_s = None if elapsed_s < SHORT_S else used.cpu_s
    services_s, calls = programs.between(*window), programs.calls_per_s
    of_host = replace(
        used.host,
        others_cpu=_others_cpu(used, elapsed_s, tool, services_s or 0.0),
        others=tuple(programs.others),
        services_cpu=_per(services_s, elapsed_s * host.cpu_count()),
        load_average=load_average(),
    )
    return replace(
        used,
        cpu_ms_per_request=_per(cpu_s, measured.completed, 1000.0),
        cores_used=_per(cpu_s, measured.elapsed_s),
        host=of_host,
        ports=replace(
            used.ports,
            calls_per_s=None if calls is None else round(calls, 3),
            kept=None if programs.kept is None else round(programs.kept, 3),
            used=programs.used_connections,
            sent_again=None if programs.sent_again is None else round(programs.sent_again, 3),
        ),
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


@dataclass(frozen=True)
class _SampledLoad:
    """A load that ran, with the samplers of its server.

    `served` is the number of tasks that the server completed, only for a load from several hosts.
    `pids` are the processes that report, and `own_calls` are samples of the number of their
    connections to their own port.
    """

    ran: LoadRun
    resources: ResourceSampler
    gil: GilSampler
    served: int | None
    pids: Sequence[int]
    own_calls: Sequence[int]
    programs: ProgramSampler


def _run_sampled(
    load: Load,
    driver: str,
    facts: Facts | None,
    upstream: Upstream | None,
    ours: Sequence[int],
    sender: Sender,
) -> _SampledLoad:
    """Run the load once. `ours` are the pids of this tool's processes besides the upstream."""
    completed = _completed(load.url, sender)
    pid = None if facts is None else server_pid(facts)
    ours = [*ours, *([] if upstream is None else [upstream.pid])]
    counts = processes.open_response_counts(facts or {})
    sampler = ResourceSampler(pid, ours, urlsplit(load.url).port, load.keep_alive, counts)
    known = with_gils(facts or {})
    before = [each["pid"] for each in known.get("worker_gil_addresses", ()) if "pid" in each]
    watched = facts if driver == BUILTIN else None  # only it reports when its window began
    with (
        sampler,
        GilSampler(known) as gil_sampler,
        _sample_processes(watched, before, load.url) as own_calls,
        ProgramSampler(pid, ours, urlsplit(load.url).port) as programs,
    ):
        ran = loads.run(load, driver, sender)
    served = None if completed is None else _increase(completed, _completed(load.url, sender))
    return _SampledLoad(ran, sampler, gil_sampler, served, before, own_calls, programs)


BUILTIN = "builtin"
SAMPLE_EVERY_S = 0.25  # s between two samples of the connections to itself
NOTE_EVERY, NOTE_S = 2, 1.0  # samples between two notes, and s until all are made


@contextmanager
def _sample_processes(
    facts: Facts | None, pids: Sequence[int], url: str
) -> Iterator[Sequence[int]]:
    """Let each of an application's processes note its stacks during the load.

    Yield a list of samples of the number of their connections to their own port: how many more
    than before the load. It is empty if they are unknown.
    """
    own_calls: list[int] = []
    if facts is None or not serves_application(facts):
        yield own_calls
        return
    ended = threading.Event()

    def watch() -> None:
        every, idle = members(facts), count_own_calls(facts, url) or 0
        for number in itertools.count():
            if number:  # the load has begun
                count = sockets.count_own_calls(every, urlsplit(url).port or 0)
                own_calls.extend([] if count is None else [max(0, count - idle)])
            if number % NOTE_EVERY == 0:
                request_reports(pids, {"note": True}, NOTE_S)
            if ended.wait(SAMPLE_EVERY_S):
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield own_calls
    finally:
        ended.set()
        thread.join()


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
    return count_completed(url) if sender.hosts else None


def _request_report(
    facts: Facts | None,
    url: str,
    began: float | None,
    ended: float | None,
    with_stacks: bool,
    beside: LightPaths = NO_PATHS,
) -> Facts:
    """Request a server's report of a window: its facts, its loop's lag and its tasks' times."""
    if facts is None or began is None or ended is None:
        return {}
    return report_window(facts, url, began, ended, with_stacks=with_stacks, without=beside.routes)


def _others_cpu(
    used: Resources, elapsed_s: float, tool: LoadFacts, services_s: float
) -> float | None:
    """Return the share of the machine's CPU that other processes took during the load.

    Without the services that the server calls: they work for the load.
    """
    parts = (used.host.busy_s, used.cpu_s, used.host.own_cpu_s, _cpu_here(tool))
    if None in parts or elapsed_s < SHORT_S:
        return None
    busy, served, own, driver = (float(str(part)) for part in parts)
    available_s = elapsed_s * host.cpu_count()
    return round(max(0.0, busy - served - own - driver - services_s) / available_s, 4)


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


LONGEST_SINGLE_S = 4.0  # s; some requests may take much longer than most
SINGLE_S = 0.5  # s of tasks; at least two tasks, unless one takes ENOUGH_S
# s between two samples: in 0.5 s 2000 samples, whose standard error is at most 0.011
SINGLE_EVERY = 0.00025
NO_HOLD = Utilisation()
NOT_ALONE = "the server does not report when its tasks started and ended"


@dataclass(frozen=True)
class SingleRequest:
    """The GIL-hold fraction h of a single task, and the means of its clocks in seconds.

    `task_s` is its wall time w_1, `task_cpu_s` the CPU time c_1 of its thread. `blocked_s` is b,
    the time in which it neither ran nor waited for a CPU. `task_high_s` is the upper end of the
    95 % interval of `task_s`. None is unknown.
    """

    hold: Utilisation = NO_HOLD
    task_s: float | None = None
    task_cpu_s: float | None = None
    blocked_s: float | None = None
    task_high_s: float | None = None


def measure_single_request(
    load: Load, facts: Mapping[str, object], before: Baseline
) -> SingleRequest:
    """Measure a single task on the server that reported `facts`, by a load of one user.

    The result is unknown for external workers that do not report.
    """
    if facts.get("external_workers") and not process_reports(facts, 0.0, 0.0):
        return SingleRequest(Utilisation(why=str(facts["gil_address_error"])))
    return run_single_requests(load, with_gils(facts), before.alone_s or 0.0)


def run_single_requests(load: Load, facts: Mapping[str, object], alone_s: float) -> SingleRequest:
    """Run `load` with one user for 0.5 s, or for two tasks; one is enough if it takes ENOUGH_S.

    `alone_s` is the response time of one request. If others take far longer, LONGEST_SINGLE_S end
    the load. Only samples between the start and the end of a
    task are used, so h does not include the time of HTTP.
    """
    count = 1 if alone_s >= ENOUGH_S else max(2, math.ceil(SINGLE_S / max(alone_s, 1e-4)))
    began = time.monotonic()
    with GilSampler(facts, SINGLE_EVERY) as sampler:
        longest_s = max(LONGEST_SINGLE_S, 3 * count * alone_s)
        loads.run(replace(load, requests=count, seconds=longest_s), "builtin")
    reported = report_window(facts, load.url, began, time.monotonic(), with_each=True)
    each = reported.get("each") or []
    hold = sampler.during(sorted((start, end) for start, end in each))
    if not each and hold.why == NO_SAMPLE:
        hold = Utilisation(why=NOT_ALONE)
    task_s, cpu_s, queued_s = (reported.get(f"task{key}_s") for key in ("", "_cpu", "_queued"))
    blocked_s = None
    if task_s is not None and cpu_s is not None and queued_s is not None:
        blocked_s = round(blocked_time(task_s, cpu_s, queued_s), 9)
    spans = [end - start for start, end in each]
    high_s = round(intervals.mean_interval(spans)[1], 9) if len(spans) > 1 else None
    return SingleRequest(hold, task_s, cpu_s, blocked_s, high_s)


def blocked_time(task_s: float, cpu_s: float, queued_s: float) -> float:
    """Return the time in s in which a single call is blocked: it does not wait for the GIL."""
    return max(0.0, task_s - cpu_s - queued_s)
