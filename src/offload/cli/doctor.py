"""The doctor: check whether this machine is ready to measure, and print a fix for each problem."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from offload import loads, resource_limits
from offload.engine import host, journal, running_servers
from offload.engine.figures import LONG_OTHERS, LONG_STEAL
from offload.engine.host import environment
from offload.engine.server import create_temporary_file, find_interpreter, user_paths
from offload.errors import UserError
from offload.registry import catalog
from offload.units import cpus, percent

OK, WARNING, WRONG = "ok", "warning", "wrong"
LEVELS = (WRONG, WARNING, OK)
PORTS = {8000: "run_server", 8081: "run_upstream"}
DESCRIPTORS = 4096  # for both ends of 1,000 users' connections
QUEUE = 1024  # the servers' backlog
TIME_WAIT = 60  # duration in s for which Linux blocks the port of a closed connection
LATE = 5.0  # ms: a larger timer delay makes the times of single requests inaccurate; a guess
PRESSURE = 0.1  # share of the time in which tasks wait for a CPU


@dataclass(frozen=True)
class Finding:
    """The result of one check. Unless its level is `ok`, the message contains the fix."""

    name: str
    level: str
    message: str


def findings() -> list[Finding]:
    """Return the results of all checks: what is wrong first, optional tools last in each level."""
    found = [*_limits(), *_noise(), *_ports(), *_pythons(), *_tools()]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))


def _tools() -> Iterator[Finding]:
    for name in catalog.drivers():
        try:
            yield Finding(name, OK, loads.version(name) or "installed, version unknown")
        except UserError as error:
            yield Finding(name, WARNING, str(error))
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    embedded = "not installed, the embedded upstream is used: sudo apt install nginx"
    yield Finding("nginx", OK if nginx else WARNING, nginx or embedded)


def _pythons() -> Iterator[Finding]:
    facts = environment()
    gil = "GIL" if getattr(sys, "_is_gil_enabled", lambda: True)() else "no GIL"
    yield Finding("Python", OK, f"{facts['python']} ({gil}), {sys.executable}")
    for name in user_paths():
        try:
            yield Finding(f"Python {name}", OK, find_interpreter(name))
        except UserError as error:
            yield Finding(f"Python {name}", WARNING, str(error))


def _ports() -> Iterator[Finding]:
    for port, command in PORTS.items():
        try:
            running_servers.check_port(port)
            yield Finding(f"port {port}", OK, f"free for {command}")
        except UserError as error:
            yield Finding(f"port {port}", WARNING, str(error))
    yield from _client_ports()


def _client_ports() -> Iterator[Finding]:
    """Check whether one new connection per request can exhaust the client ports."""
    bounds = _read_words("/proc/sys/net/ipv4/ip_local_port_range")
    if len(bounds) != 2:
        return
    count = int(bounds[1]) - int(bounds[0]) + 1
    if _read_words("/proc/sys/net/ipv4/tcp_tw_reuse") in (["1"], ["2"]):
        yield Finding("ports of clients", OK, f"{count}, reused after 1 s on this machine")
        return
    capacity = f"{count}: enough for {count / TIME_WAIT:.0f} new connections/s"
    fix = "sudo sysctl net.ipv4.tcp_tw_reuse=2, or keep_alive=yes"
    yield Finding("ports of clients", WARNING, f"{capacity}: {fix}")


def _limits() -> Iterator[Finding]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    enough = limit == resource.RLIM_INFINITY or limit >= DESCRIPTORS
    value = "no limit" if limit == resource.RLIM_INFINITY else f"{limit}"
    fix = "" if enough else ": not enough for 1,000 users: raise ulimit -n"
    yield Finding("descriptors", OK if enough else WARNING, value + fix)
    if queue := _read_words("/proc/sys/net/core/somaxconn"):
        enough = int(queue[0]) >= QUEUE
        fix = "" if enough else f": below the backlog: sudo sysctl net.core.somaxconn={QUEUE}"
        yield Finding("listen queue", OK if enough else WARNING, queue[0] + fix)
    cores = len(resource_limits.cpu_numbers()) or os.cpu_count() or 1
    fix = "" if cores > 1 else ": load tool and server share one: comparisons are not valid"
    yield Finding("cores", OK if cores > 1 else WRONG, f"{cores}{fix}")
    quota = resource_limits.own_cpu_quota()
    if quota is not None and quota < cores:
        fix = "servers are stopped when it is used up: raise it, or reserve cores instead of it"
        level = WARNING if quota > 1 else WRONG
        yield Finding("CPU quota", level, f"{cpus(quota)} of {cores} cores: {fix}")
    try:
        journal.check_writable()
        yield Finding("results", OK, str(journal.RESULTS))
    except UserError as error:
        yield Finding("results", WRONG, str(error))
    try:
        with create_temporary_file():
            yield Finding("temporary files", OK, tempfile.gettempdir())
    except UserError as error:
        yield Finding("temporary files", WRONG, str(error))


def _noise() -> Iterator[Finding]:
    now = host.measure_noise()
    named = f", such as {', '.join(now.busiest)}" if now.busiest else ""
    fix = f"end the other processes{named}"
    yield _share("CPU of others", now.others_cpu, LONG_OTHERS, fix)
    yield _share("CPU stolen", now.steal, LONG_STEAL, "measure when the host is quieter")
    pressure = _share("CPU pressure", now.pressure, PRESSURE, "end the other processes")
    yield Finding(pressure.name, WARNING if pressure.level == WRONG else OK, pressure.message)
    late = f"{now.timer_late_ms:.2f} ms late"
    fix = ": percentiles below that are inaccurate" if now.timer_late_ms > LATE else ""
    yield Finding("timer", WARNING if fix else OK, late + fix)
    governor = environment()["governor"]
    value = str(governor or "not available on this machine")
    slow = governor not in (None, "performance")
    fix = ": sudo cpupower frequency-set -g performance" if slow else ""
    yield Finding("governor", WARNING if slow else OK, value + fix)
    memory = psutil.virtual_memory().available / 2**30
    low = memory < 1
    fix = ": servers may be swapped out: end the other processes" if low else ""
    yield Finding("memory", WARNING if low else OK, f"{memory:.1f} GiB available{fix}")
    load = os.getloadavg()[0]
    yield Finding("load average", OK, f"{load:.2f} over the last minute, for information only")


def _share(name: str, share: float | None, limit: float, fix: str) -> Finding:
    if share is None:
        return Finding(name, OK, "not available on this machine")
    if share > limit:
        return Finding(name, WRONG, f"{percent(share, 1)}, more than {percent(limit)}: {fix}")
    return Finding(name, OK, percent(share, 1))


def _read_words(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except OSError:
        return []
