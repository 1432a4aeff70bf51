"""One load against one server, with samples of its resources and its GIL; and the requests before.

First come single requests, which must succeed, and a load of one user that shows how long one task
holds the GIL. After the load the server reports its figures of the window.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import operator
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from offload import files, loads
from offload.engine import gil_location, host, intervals, processes, server, workload
from offload.engine.figures import little_ratio
from offload.engine.gil_location import Unreadable
from offload.engine.gil_sampler import NO_SAMPLE, GilSampler, Utilisation
from offload.engine.host import load_average
from offload.engine.light_route import NO_PATHS, LightPaths, Prober
from offload.engine.processes import ProcessTree, ResourceSampler
from offload.engine.record import (
    Application,
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
from offload.engine.workload import (
    ENOUGH_S,
    FIRST_REQUESTS,
    BadStatus,
    FailedRequest,
    FirstResponses,
    get,
    send_first_requests,
)
from offload.errors import LOAD, STALLED, Flag, MachineError, Problem, StartError
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
        failure, with_stacks = error, not isinstance(error, BadStatus)
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
        return FailedRequest(f"{missing} ({error.what})", "name one of its paths by request=/path")
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
            # The upstream counts all tries of a load, not only those of its window.
            tries_per_request=(
                None if load.has_window else _per(sampled.tries, measured.completed)
            ),
        ),
        _resources(sampled.resources.between(*window), measured, tool),
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
    if facts is not None and (ended := server.exit_reason(_pid(facts))) is not None:
        what = f"{ended} under {load.users} users, after {measured.completed or 0} responses"
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
    if reported and sampled.pids:
        reported["ended"] = sum(server.exit_reason(pid) is not None for pid in sampled.pids)
    if reported and sampled.own_calls:
        mean = statistics.fmean(sampled.own_calls)
        reported["own_calls"] = round(max(mean, reported["own_calls"] or 0), 3)
    return dataclass_from(Application, reported)


def failures_text(measured: Figures) -> str:
    """Return the numbers of failed requests by kind."""
    known = [f"{kind}: {count}" for kind, count in measured.failed.items() if count]
    return ", ".join(known) or "none failed"


def _resources(used: Resources, measured: Figures, tool: LoadFacts) -> Resources:
    """Add the figures that are derived from CPU times; for a short load they are unknown."""
    elapsed_s = measured.elapsed_s or 0.0
    cpu_s = None if elapsed_s < SHORT_S else used.cpu_s
    host = replace(
        used.host,
        others_cpu=_others_cpu(used, elapsed_s, tool),
        load_average=load_average(),
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


@dataclass(frozen=True)
class _SampledLoad:
    """A load that ran, with the samplers of its server.

    `tries` is their number in the upstream. `served` is the number of tasks that the server
    completed, only for a load from several hosts. `pids` are the processes that report, and
    `own_calls` are samples of the number of their connections to their own port.
    """

    ran: LoadRun
    resources: ResourceSampler
    gil: GilSampler
    tries: int | None
    served: int | None
    pids: Sequence[int]
    own_calls: Sequence[int]


def _run_sampled(
    load: Load,
    driver: str,
    facts: Facts | None,
    upstream: Upstream | None,
    ours: Sequence[int],
    sender: Sender,
) -> _SampledLoad:
    """Run the load once. `ours` are the pids of this tool's processes besides the upstream."""
    tries = _tries(upstream)
    completed = _completed(load.url, sender)
    pid = None if facts is None else _pid(facts)
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
    ):
        ran = loads.run(load, driver, sender)
    served = None if completed is None else _increase(completed, _completed(load.url, sender))
    tried = _growth(tries, _tries(upstream))
    return _SampledLoad(ran, sampler, gil_sampler, tried, served, before, own_calls)


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
        every, idle = _members(facts), _count_own_calls(facts, url) or 0
        for number in itertools.count():
            if number:  # the load has begun
                count = processes.count_own_calls(every, urlsplit(url).port or 0)
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


def _pid(facts: Facts) -> int:
    return int(str(facts["pid"]))


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


MOST_PLACES = 3  # of a stall
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

    `alone_s` is the response time of one request. Only samples between the start and the end of a
    task are used, so h does not include the time of HTTP.
    """
    count = 1 if alone_s >= ENOUGH_S else max(2, math.ceil(SINGLE_S / max(alone_s, 1e-4)))
    began = time.monotonic()
    with GilSampler(facts, SINGLE_EVERY) as sampler:
        loads.run(replace(load, requests=count), "builtin")
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


# What a server reports about itself: the figures of a window, and the addresses of its GILs.
#
# A server of a task has the route /resources/ for the figures. If several processes may respond, or
# if it serves a user's application, each process reports on its own socket
# (serving/metrics/process_report.py).
#
# Without these reports, the processes that accept connections are found by their sockets, and their
# GILs by the method of `offload watch` (Linux).


ADDRESS = "\0offload-application-{pid}"
LARGEST = 1 << 53  # count of tasks
TIMEOUT_S = 5.0  # s; a process that computes may respond late
LAGS = ("loop_lag_p50_ms", "loop_lag_p99_ms", "loop_lag_max_ms")


def serves_application(facts: Facts) -> bool:
    """Whether a server that reported `facts` serves a user's application."""
    return facts.get("application") is not None


def report_window(
    facts: Facts,
    url: str,
    began: float,
    ended: float,
    with_each: bool = False,
    with_stacks: bool = False,
    without: Collection[str] = (),
) -> Facts:
    """Return the figures of a window in seconds of CLOCK_MONOTONIC; empty without a response.

    The keys are those of /resources/; a user's application adds `application`, `without` routes
    that were measured beside the load. `with_each` adds the start and end of each request, and
    `with_stacks` where the threads and tasks of an application are.
    """
    reports = process_reports(facts, began, ended, with_each, with_stacks)
    if serves_application(facts):
        own_calls = _count_own_calls(facts, url) if with_stacks else None
        return merge_reports(reports, own_calls, without)
    if reports:
        return _merge_task_reports(reports)
    more = "&each" if with_each else ""
    try:
        path = f"/resources/?from={began:.6f}&to={ended:.6f}{more}"
        reported: dict[str, Any] = json.loads(get(urljoin(url, path)))
    except (StartError, ValueError):  # if the server died, the load has failures
        return {}
    return reported


def count_completed(url: str) -> int | None:
    """Return how many tasks the server of a URL has completed since its start.

    None if it is not one of our servers, or if other processes than its own run the tasks.
    """
    try:
        reported = json.loads(get(urljoin(url, "/resources/")))
        count = reported["responses"]["completed"]
    except (StartError, ValueError, KeyError, TypeError):
        return None
    return count if type(count) is int and 0 <= count < LARGEST else None


def last_error(facts: Facts) -> str | None:
    """Return the last unhandled exception of a user's application; None if there was none."""
    return next((r["error"] for r in process_reports(facts, 0.0, 0.0) if r.get("error")), None)


def _count_own_calls(facts: Facts, url: str) -> int | None:
    """Return the number of connections of a server to its own port; None if it is unknown."""
    return processes.count_own_calls(_members(facts), urlsplit(url).port or 0)


def _members(facts: Facts) -> list[int]:
    """Return the pids of a server's processes; empty if it has ended."""
    try:
        return [process.pid for process in ProcessTree(_pid(facts)).members]
    except StartError:
        return []


def process_reports(
    facts: Facts,
    began: float,
    ended: float,
    with_each: bool = False,
    with_stacks: bool = False,
) -> list[Facts]:
    """Return the reports of the processes that serve a user's application, or of several processes.

    There are none if the server itself runs the tasks, and on other systems than Linux.
    """
    has_reports = serves_application(facts) or facts.get("external_workers")
    if sys.platform != "linux" or not has_reports:
        return []
    values = {"from": began, "to": ended, "each": with_each, "with_stacks": with_stacks}
    return request_reports(_members(facts), values, TIMEOUT_S)


def request_reports(
    pids: Sequence[int], values: Mapping[str, object], timeout_s: float
) -> list[Facts]:
    """Send a request to several processes at once; return the reports of those that have one."""
    ends, request = time.monotonic() + timeout_s, json.dumps(values).encode()
    with ExitStack() as stack:
        sent = [_send_request(stack, pid, request) for pid in pids]
        found = [_read_report(each, ends) for each in sent if each is not None]
    return [report for report in found if report is not None]


def merge_reports(
    reports: Sequence[Facts], own_calls: int | None = None, without: Collection[str] = ()
) -> Facts:
    """Return the figures of a server from those of its processes, `without` some routes.

    Means are weighted by requests. The lag of the loop, the use of threads and the memory are those
    of the worst process.
    """
    if not reports:
        return {}
    routes = _merge_routes([route for report in reports for route in report["routes"]])
    mallocs = [report["malloc"] for report in reports if report.get("malloc")]
    routes = [each for each in routes if each["route"] not in without] or routes
    limiters = [report["limiter"] for report in reports if report["limiter"]]
    each = [span for report in reports for span in report.get("each", ())]
    inside_s, cpu_s = (_mean(routes, key) for key in ("inside_s", "cpu_s"))
    return {
        **_lags(reports),
        "task_s": inside_s,
        "task_cpu_s": cpu_s,
        "each": each,
        "facts": _gil_state(reports),
        "application": {
            "kind": reports[0]["kind"],
            "processes": len(reports),
            "requests": sum(route["requests"] for route in routes),
            "inside_s": inside_s,
            "cpu_s": cpu_s,
            "inside_most": _worst(reports, lambda r: r["inside_most"]),
            "routes": routes,
            "limiter": max(limiters, key=lambda each: each["full"], default={}),
            "pools": _merge_pools(reports),
            "handovers": _total(report.get("handovers") for report in reports),
            "anyio_threads": _worst(reports, lambda r: r["anyio_threads"]),
            "asyncio_threads": _worst(reports, lambda r: r["asyncio_threads"]),
            "worker_pss_mib": _worst(reports, lambda r: r["memory"]["pss_mib"]),
            "worker_private_mib": _worst(reports, lambda r: r["memory"]["private_mib"]),
            "blas": _merge_blas([r["blas"] for r in reports if r["blas"]]),
            "lost_threads": next((r["lost_threads"] for r in reports if r["lost_threads"]), []),
            "error": next((report["error"] for report in reports if report["error"]), None),
            "collector": max(
                (report["collector"] for report in reports), key=lambda each: each["share"] or 0.0
            ),
            "malloc": max(mallocs, key=lambda each: each["free_mib"], default={}),
            "forks": sum(report["forks"] for report in reports),
            "failures": [{"pid": report["pid"], **report["failures"]} for report in reports],
            "times": _times_of_main_route(reports, routes),
            "own_calls": own_calls,
            "stall": _merge_stalls([r["stall"] for r in reports if "stall" in r]),
        },
    }


def _times_of_main_route(reports: Sequence[Facts], routes: Sequence[Facts]) -> list[Facts]:
    """Return the times of the first of several routes in each process that has served it."""
    return [
        {"pid": report["pid"], "requests": each["requests"], "median_s": each["median_s"]}
        for report in reports
        for each in report["routes"]
        if routes and each["route"] == routes[0]["route"]
    ]


def _merge_stalls(found: Sequence[Facts]) -> dict[str, Any] | None:
    """Return the stalled pools of all processes, those with most calls in their queues first."""
    if not found:
        return None
    pools = [pool for each in found for pool in each["pools"]]
    places = [place for each in found for place in each["places"]]
    return {
        "pools": sorted(pools, key=lambda pool: -pool["queued"]),
        "places": sorted(places, key=lambda place: -place["count"])[:MOST_PLACES],
    }


def _merge_blas(found: Sequence[Facts]) -> Facts:
    """Return those of the process with most threads of a library; the share is the mean."""
    if not found:
        return {}
    known = [each["share"] for each in found]
    is_known = None not in known
    share = round(math.fsum(known) / len(known), 4) if is_known else None
    return {**max(found, key=lambda each: each["threads"]), "share": share}


def _merge_task_reports(reports: Sequence[Facts]) -> Facts:
    """Return the figures of all tasks from those of the processes that run them.

    `slots` are those of one process.
    """
    each = [report.get("each") for report in reports if report["tasks"] != 0]
    means = ("slot_s", "task_s", "task_cpu_s", "task_queued_s")
    is_known = all(report["tasks"] is not None for report in reports)
    return {
        **_lags(reports),
        "tasks": sum(report["tasks"] for report in reports) if is_known else None,
        "slots": reports[0]["slots"],
        **{key: _mean(reports, key, "tasks") if is_known else None for key in means},
        "each": None if None in each else [span for spans in each for span in spans or ()],
        "facts": _gil_state(reports),
    }


def _lags(reports: Sequence[Facts]) -> dict[str, Any]:
    return {key: _worst(reports, operator.itemgetter(key)) for key in LAGS}


def _gil_state(reports: Sequence[Facts]) -> dict[str, Any]:
    """Return whether the GIL of any process is enabled, and the import that enabled it."""
    enabled_by = [r["gil_enabled_by"] for r in reports if r["gil_enabled_by"]]
    return {
        "gil_enabled": any(report["gil_enabled"] for report in reports),
        **({"gil_enabled_by": enabled_by[0]} if enabled_by else {}),
    }


def _send_request(stack: ExitStack, pid: int, request: bytes) -> socket.socket | None:
    """Send a request to a process; return the connection, None if it does not serve a report."""
    with suppress(OSError):
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.settimeout(TIMEOUT_S)
        connection.connect(ADDRESS.format(pid=pid))
        if pid_of_peer(connection) == pid:  # any user can listen on an abstract address
            connection.sendall(request)
            return connection
    return None


def _read_report(connection: socket.socket, ends: float) -> Facts | None:
    """Read a report until `ends`, in s of monotonic(); None if there is none, or it is damaged."""
    parts = []
    with suppress(OSError, ValueError):
        while True:
            connection.settimeout(max(0.001, ends - time.monotonic()))
            if not (part := connection.recv(1 << 16)):
                break
            parts.append(part)
        report: Facts = files.parse_json(b"".join(parts))
        return report
    return None


def pid_of_peer(connection: socket.socket) -> int:
    """Return the process that listens on the other end, according to the kernel."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[0])


def _merge_routes(found: Iterable[Facts]) -> list[dict[str, Any]]:
    """Merge the entries of each route; the route with the largest total time is first."""
    own: dict[str, list[Facts]] = {}
    for route in found:
        own.setdefault(route["route"], []).append(route)
    merged = [
        {
            "route": name,
            "requests": sum(each["requests"] for each in parts),
            "inside_s": _mean(parts, "inside_s"),
            "cpu_s": _mean(parts, "cpu_s"),
            "run_s": _mean(parts, "run_s"),
            "longest_s": max(each["longest_s"] for each in parts),
            "cpu_growth": _mean(parts, "cpu_growth"),
            "steps": _merge_steps(parts),
        }
        for name, parts in own.items()
    ]
    return sorted(merged, key=lambda each: -each["requests"] * (each["inside_s"] or 0.0))


def _merge_steps(parts: Sequence[Facts]) -> dict[str, float | None]:
    """Return the means of what requests of one route do."""
    each = [{**part["steps"], "requests": part["requests"]} for part in parts]
    return {name: _mean(each, name) for name in each[0] if name != "requests"}


def _merge_pools(reports: Sequence[Facts]) -> list[Facts]:
    """Return each pool in the state of the process in which it was full most often."""
    found: dict[tuple[str, str | None], Facts] = {}
    for pool in (pool for report in reports for pool in report.get("pools") or ()):
        key = (pool["kind"], pool["name"])
        if key not in found or found[key]["full"] < pool["full"]:
            found[key] = pool
    return sorted(found.values(), key=lambda pool: -pool["full"])


def _total(counts: Iterable[int | None]) -> int | None:
    known = [*counts]
    return None if None in known else sum(count or 0 for count in known)


def _mean(parts: Sequence[Facts], key: str, counted: str = "requests") -> float | None:
    """Return the mean of a time over all that is counted; None if it is unknown for some."""
    some = [part for part in parts if part[counted]]
    count = sum(part[counted] for part in some)
    if not count or any(part[key] is None for part in some):
        return None
    total = math.fsum(part[counted] * part[key] for part in some)
    return round(total / float(count), 9)


def _worst(reports: Sequence[Facts], value_of: Callable[[Facts], Any]) -> Any:
    return max((value for r in reports if (value := value_of(r)) is not None), default=None)


NO_GIL = "this Python has no GIL"


def with_gils(facts: Facts) -> Facts:
    """Return a server's facts with the addresses of the GILs of its tasks, or why none is known.

    Each process that runs tasks reports its address, else it is found in its memory. The facts are
    returned unchanged if they already have addresses, or if the processes that run the tasks cannot
    be found: those of a server that starts a process per request, or whose accepting processes pass
    the tasks to others.
    """
    if isinstance(facts.get("worker_gil_addresses"), list):
        return facts
    found = process_reports(facts, 0.0, 0.0)
    if not found and facts.get("external_workers") and not serves_application(facts):
        found = _locate_gils(_task_pids(facts))
    return {**facts, "worker_gil_addresses": found} if found else facts


def _task_pids(facts: Facts) -> Sequence[int]:
    root, port = facts.get("pid"), facts.get("port")
    if not isinstance(root, int) or not isinstance(port, int):
        return ()
    try:
        members = ProcessTree(root).members
    except StartError:
        return ()
    if catalog.find_server(str(facts["server"])).constants.get("TASKS_ELSEWHERE"):
        return ()
    return [pid for pid in processes.accepting_pids(members, port) if pid != root]


def _locate_gils(pids: Sequence[int]) -> list[Facts]:
    found: list[Facts] = []
    for pid in pids:
        try:
            runtime = gil_location.find_runtime(pid)
            gils = gil_location.locate(runtime, gil_location.layout(runtime))
            gil_location.check(runtime, gils)
        except Unreadable as error:
            return [{"gil_address_error": error.message}]
        except MachineError as error:  # a package is missing
            return [{"gil_address_error": str(error)}]
        if not gils.addresses:
            return [{"gil_address_error": NO_GIL}]
        found += [{"gil_address": {"pid": pid, "address": at}} for at in gils.addresses]
    return found
