"""Causes in what the machine allows: a quota of the CPU, cores for threads, queues and ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offload.causes.figures import Figures
from offload.causes.gains import Switch
from offload.causes.rules import Cause, Rule
from offload.engine.application import Blas
from offload.engine.figures import THROTTLED
from offload.engine.record import ClientPorts, Record, Throttling
from offload.units import counted, percent

CPU_QUOTA = "cpu_quota"
CLIENT_PORTS = "client_ports"
BLAS_THREADS = "blas_threads"
LISTEN_QUEUE = "listen_queue"
BLAS_SHARE = 0.1  # of the CPU time; a guess
NEARLY = 0.9  # share of the cores in use, from which threads of BLAS are suspected; a guess
DROPPED = 0.01  # dropped connections per request: they are seen in p99, as 1 s (RFC 6298: the RTO)
NO_PORT = "[Errno 99]"  # EADDRNOTAVAIL, as Python prints it


def find_cpu_quota(of: Figures) -> Cause | None:
    """A quota of the CPU stops the server in many of its periods.

    A stopped thread looks like one that waits, or that blocks the loop or holds the GIL for long.
    """
    found = total_throttling(of.records)
    if found.share is None or found.share < THROTTLED:
        return None
    return Cause(CPU_QUOTA, found.share, THROTTLED, facts=found)


def total_throttling(records: Sequence[Record]) -> Throttling:
    """Return the sums over records; the quota is the smallest one."""
    known = [r.resources.throttling for r in records if r.resources.throttling.periods]
    if not known:
        return Throttling()
    return Throttling(
        min(each.quota or 0.0 for each in known),
        sum(each.periods or 0 for each in known),
        sum(each.throttled or 0 for each in known),
        round(sum(each.stopped_s or 0.0 for each in known), 4),
    )


def find_blas_threads(of: Figures) -> Cause | None:
    """BLAS starts threads in each call, although the calls alone need more cores than there are.

    If the calls at once are fewer than the cores, the threads may help: then it is a suspicion, as
    for threads in children, which may also be those of Python, and if not all cores are in use.
    """
    found, cores = of.records[-1].application.threads.blas if of.records else Blas(), of.cores
    if not found.threads or found.share is None or found.share < BLAS_SHARE or cores is None:
        return None
    at_once = _calls_at_once(of)
    if of.busy_cores is None or of.busy_cores < NEARLY * cores or at_once is None:
        return None
    computing = max(at_once, found.processes or 0)  # those of a pool compute a call each
    if of.processes * (computing + found.threads) <= cores:
        return None
    calls = of.processes * at_once
    is_certain = calls >= cores and calls > 1 and of.busy_cores >= cores
    return Cause(
        BLAS_THREADS,
        found.share,
        BLAS_SHARE,
        limit=of.processes * computing,
        facts=found,
        needs_gain=not is_certain,
    )


def _calls_at_once(of: Figures) -> int | None:
    """Return how many requests a process computes at once; those on an event loop count as one."""
    own = of.records[-1].application
    if not of.has_loop:
        return own.inside_most
    return max(1, own.threads.limiter.used or 0, own.threads.asyncio or 0)


def _describe_blas_threads(cause: Cause, _: int) -> str:
    found = cause.facts
    assert isinstance(found, Blas)
    own = counted(found.threads or 0, "thread")
    calls = "" if cause.limit is None else f", while {counted(cause.limit, 'call')} compute at once"
    verb = "takes" if found.threads == 1 else "take"
    return (
        f"{own} of {found.library} in each process {verb} {percent(found.share or 0.0)} of the CPU "
        f"time{calls}: more threads than cores"
    )


def _remedy_of_blas_threads(cause: Cause) -> str:
    assert isinstance(cause.facts, Blas)
    return f"set {cause.facts.variable}=1 in the server's environment"


def _switch_of_blas_threads(cause: Cause) -> Switch | None:
    assert isinstance(cause.facts, Blas)
    return Switch({cause.facts.variable: "1"}) if cause.facts.variable else None


def find_listen_queue(of: Figures) -> Cause | None:
    """The server accepts connections too late, and its full listen queue drops others."""
    known = [r for r in of.records if r.resources.listen_overflows is not None]
    completed = sum(r.result.completed or 0 for r in known)
    dropped = sum(r.resources.listen_overflows or 0 for r in known)
    if not completed or dropped / completed < DROPPED:
        return None
    server = of.records[-1].server.settings.get("backlog")
    backlog = server if isinstance(server, int) else None
    return Cause(
        LISTEN_QUEUE, dropped / completed, DROPPED, limit=backlog, facts=Dropped(dropped, completed)
    )


def find_client_ports(of: Figures) -> Cause | None:
    """Connections fail because all ports of clients are in use: of the load tool, or of the server.

    Many connections in TIME_WAIT alone are no harm: Linux may use their ports again.
    """
    for record in (*of.records, *of.failed):
        found = record.resources.ports
        own_error = NO_PORT in (record.application.failing.error or "")
        if own_error or (found.are_used_up and record.result.failed.get("other")):
            return Cause(CLIENT_PORTS, found.time_wait, found.available, facts=found)
    return None


@dataclass(frozen=True)
class Dropped:
    """How many connections the listen queue dropped, and how many requests ended meanwhile."""

    connections: int
    requests: int


def _describe_listen_queue(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, Dropped)
    size = "" if cause.limit is None else f" of {cause.limit}"
    dropped = counted(cause.facts.connections, "connection")
    ended = counted(cause.facts.requests, "request")
    return (
        f"the listen queue{size} was full and dropped {dropped} while {ended} ended: such a client "
        "waits for 1 s or more until it tries again"
    )


def _describe_client_ports(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, ClientPorts)
    return cause.facts.text


def _describe_cpu_quota(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, Throttling)
    return cause.facts.text


RULES = (
    Rule(
        CPU_QUOTA,
        find_cpu_quota,
        _describe_cpu_quota,
        "raise the quota (--cpus=, CPUQuota=, limits.cpu) or use less CPU a request; more threads "
        "or processes gain nothing",
    ),
    Rule(
        CLIENT_PORTS,
        find_client_ports,
        _describe_client_ports,
        "keep connections and use them again, of the load (keep_alive=yes) as well as of the "
        "application (one session or pool), or widen net.ipv4.ip_local_port_range",
    ),
    Rule(
        LISTEN_QUEUE,
        find_listen_queue,
        _describe_listen_queue,
        "raise backlog= of the server and net.core.somaxconn, use more processes, or keep "
        "connections (keep_alive=yes)",
        switch=lambda _: Switch(keep_alive=True),
    ),
    Rule(
        BLAS_THREADS,
        find_blas_threads,
        _describe_blas_threads,
        _remedy_of_blas_threads,
        switch=_switch_of_blas_threads,
        is_proven_by_gain=lambda _: True,
    ),
)
