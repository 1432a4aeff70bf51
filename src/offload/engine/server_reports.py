"""What a server reports about itself: the figures of a window, and the addresses of its GILs.

A server of a task has the route /resources/ for the figures. If several processes may respond, or
if it serves a user's application, each process reports on its own socket
(serving/metrics/process_report.py), and the reports are merged.

Without these reports, the processes that accept connections are found by their sockets, and their
GILs by the method of `offload watch` (Linux).
"""

from __future__ import annotations

import json
import math
import operator
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urljoin, urlsplit

from offload import files
from offload.engine import gil_location, sockets
from offload.engine.application import Malloc
from offload.engine.gil_location import Unreadable
from offload.engine.processes import ProcessTree
from offload.engine.workload import get
from offload.errors import MachineError, StartError
from offload.registry import catalog

Facts = Mapping[str, Any]
ADDRESS = "\0offload-application-{pid}"
LARGEST = 1 << 53  # count of tasks
TIMEOUT_S = 15.0  # s; a process that computes or collects may respond late
MOST_PLACES = 3  # of a stall
LAGS = ("loop_lag_p50_ms", "loop_lag_p99_ms", "loop_lag_max_ms")


def server_pid(facts: Facts) -> int:
    """Return the pid of a server's main process, from its ready line."""
    return int(str(facts["pid"]))


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
        own_calls = count_own_calls(facts, url) if with_stacks else None
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


def read_malloc(facts: Facts) -> Malloc | None:
    """Return what malloc keeps free now in the process of an application that keeps most."""
    found = _most_kept(process_reports(facts, 0.0, 0.0))
    return Malloc(**found) if found else None


def _most_kept(reports: Sequence[Facts]) -> Facts:
    mallocs = [report["malloc"] for report in reports if report["malloc"]]
    return max(mallocs, key=lambda each: each["free_mib"], default={})


def count_own_calls(facts: Facts, url: str) -> int | None:
    """Return the number of connections of a server to its own port; None if it is unknown."""
    return sockets.count_own_calls(members(facts), urlsplit(url).port or 0)


def members(facts: Facts) -> list[int]:
    """Return the pids of a server's processes; empty if it has ended."""
    try:
        return [process.pid for process in ProcessTree(server_pid(facts)).members]
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
    return request_reports(members(facts), values, TIMEOUT_S)


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
    routes = [each for each in routes if each["route"] not in without] or routes
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
            "pauses": max((r["pauses"] for r in reports), key=lambda each: each["share"]),
            "layers": _worst(reports, lambda r: r.get("layers")),
            "debug_tools": sorted({name for r in reports for name in r.get("debug_tools", ())}),
            "routes": routes,
            "times": _times_of_main_route(reports, routes),
            "threads": _merge_threads(reports),
            "memory": _merge_memory(reports),
            "failing": {
                "error": next((report["error"] for report in reports if report["error"]), None),
                "processes": [{"pid": report["pid"], **report["failures"]} for report in reports],
                "own_calls": own_calls,
                "stall": _merge_stalls([r["stall"] for r in reports if "stall" in r]),
            },
        },
    }


def _merge_threads(reports: Sequence[Facts]) -> Facts:
    limiters = [report["limiter"] for report in reports if report["limiter"]]
    return {
        "limiter": max(limiters, key=lambda each: each["full"], default={}),
        "pools": _merge_pools(reports),
        "of_request": next((found for r in reports if (found := r["of_request"])), None),
        "handovers": _total(report["handovers"] for report in reports),
        "anyio": _worst(reports, lambda r: r["anyio_threads"]),
        "asyncio": _worst(reports, lambda r: r["asyncio_threads"]),
        "blas": _merge_blas([r["blas"] for r in reports if r["blas"]]),
        "alive": max(
            (found for r in reports if (found := r["alive_threads"])),
            key=lambda each: each["count"],
            default=None,
        ),
        "lost": next((r["lost_threads"] for r in reports if r["lost_threads"]), []),
        "beside": next((found for r in reports if (found := r["beside_stuck_children"])), []),
        "forks": sum(report["forks"] for report in reports),
        "forked_at": next((found for r in reports if (found := r["forked_at"])), None),
    }


def _merge_memory(reports: Sequence[Facts]) -> Facts:
    collectors = [report["collector"] for report in reports]
    return {
        "pss_mib": _worst(reports, lambda r: r["memory"]["pss_mib"]),
        "private_mib": _worst(reports, lambda r: r["memory"]["private_mib"]),
        "collector": max(collectors, key=lambda each: each["share"] or 0.0),
        "malloc": _most_kept(reports),
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
    """Return each pool in the state of the process in which it was full most often.

    If it was never full, in that with the most items: a queue, or unfinished tasks.
    """
    found: dict[tuple[str, str | None], Facts] = {}
    for pool in (pool for report in reports for pool in report.get("pools") or ()):
        key = (pool["kind"], pool["name"])
        if key not in found or _fullness(found[key]) < _fullness(pool):
            found[key] = pool
    return sorted(found.values(), key=lambda pool: -pool["full"])


def _fullness(pool: Facts) -> tuple[float, float]:
    return pool["full"], pool["queued"]


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
    return [pid for pid in sockets.accepting_pids(members, port) if pid != root]


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
