"""What a server reports about itself: the figures of a window, and the addresses of its GILs.

A server of a task has the route /resources/ for the figures. If several processes may respond, or
if it serves a user's application, each process reports on its own socket
(serving/metrics/process_report.py).

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

import psutil

from offload.bench.trial.workload import get
from offload.bench.watch import gil_location, python_runtime
from offload.bench.watch.remote_memory import Unreadable
from offload.engine import processes
from offload.engine.processes import ProcessTree
from offload.errors import MachineError, StartError
from offload.registry import catalog

ADDRESS = "\0offload-application-{pid}"
LARGEST = 1 << 53  # count of tasks
TIMEOUT_S = 5.0  # s; a process that computes may respond late
LAGS = ("loop_lag_p50_ms", "loop_lag_p99_ms", "loop_lag_max_ms")
Facts = Mapping[str, Any]


def serves_application(facts: Facts) -> bool:
    """Whether a server that reported `facts` serves a user's application."""
    return facts.get("application") is not None


def report_window(
    facts: Facts, url: str, began: float, ended: float, with_each: bool = False
) -> Facts:
    """Return the figures of a window in seconds of CLOCK_MONOTONIC; empty without a response.

    The keys are those of /resources/; a user's application adds `application`. `with_each` adds
    the start and end of each request.
    """
    reports = process_reports(facts, began, ended, with_each)
    if serves_application(facts):
        return merge_reports(reports)
    if reports:
        return _merge_task_reports(reports)
    more = "&each" if with_each else ""
    try:
        path = f"/resources/?from={began:.6f}&to={ended:.6f}{more}"
        reported: dict[str, Any] = json.loads(get(urljoin(url, path)))
    except (StartError, ValueError):  # if the server died, the load has failures
        return {}
    return reported


def completed(url: str) -> int | None:
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


def process_reports(
    facts: Facts, began: float, ended: float, with_each: bool = False
) -> list[Facts]:
    """Return the reports of the processes that serve a user's application, or of several processes.

    There are none if the server itself runs the tasks, and on other systems than Linux.
    """
    has_reports = serves_application(facts) or facts.get("external_workers")
    if sys.platform != "linux" or not has_reports:
        return []
    try:
        pids = [process.pid for process in ProcessTree(int(str(facts["pid"]))).members]
    except StartError:
        return []
    request = json.dumps({"from": began, "to": ended, "each": with_each}).encode()
    found = [_report_of(pid, request) for pid in pids]
    return [report for report in found if report is not None]


def merge_reports(reports: Sequence[Facts]) -> Facts:
    """Return the figures of a server from those of its processes.

    Means are weighted by requests. The lag of the loop, the use of threads and the memory are those
    of the worst process.
    """
    if not reports:
        return {}
    routes = _merge_routes([route for report in reports for route in report["routes"]])
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
            "anyio_threads": _worst(reports, lambda r: r["anyio_threads"]),
            "asyncio_threads": _worst(reports, lambda r: r["asyncio_threads"]),
            "worker_pss_mib": _worst(reports, lambda r: r["memory"]["pss_mib"]),
            "worker_private_mib": _worst(reports, lambda r: r["memory"]["private_mib"]),
            "error": next((report["error"] for report in reports if report["error"]), None),
        },
    }


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


def _report_of(pid: int, request: bytes) -> Facts | None:
    """Request the report of one process; None if it does not serve the application, or ends."""
    with suppress(OSError, ValueError, psutil.Error), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(ADDRESS.format(pid=pid))
        if _pid_of_listener(connection) != pid:  # any user can listen on an abstract address
            return None
        connection.sendall(request)
        parts = iter(lambda: connection.recv(1 << 16), b"")
        report: Facts = json.loads(b"".join(parts))
        return report
    return None


def _pid_of_listener(connection: socket.socket) -> int:
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
        }
        for name, parts in own.items()
    ]
    return sorted(merged, key=lambda each: -each["requests"] * (each["inside_s"] or 0.0))


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
            runtime = python_runtime.find(pid)
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
