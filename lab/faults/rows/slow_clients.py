"""R6: clients that send their headers or bodies slowly, or read their responses slowly."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from lab.faults.clients import concurrent_clients, slow_connections
from lab.faults.clients.slow_connections import BODY, HEADERS, KINDS, READERS, slow
from lab.faults.machine.waiting import wait_until
from lab.faults.row import Outcome, Row, Size, judge_server
from lab.faults.servers.faulty_server import WORKERS, FaultyServer, faulty
from offload.errors import MachineError
from offload.units import after, percent, seconds

DEADLINE_S = 10.0  # of a request and of a response
LATE_S = 2.0  # after the deadline, until the connection is closed
MOST_SLOWDOWN = 2.0  # the p99 during the attack, compared with that before and after it
PATIENCE_S = 5.0  # of the good clients
START_S = 8.0  # for the slow readers, and for the other slow clients
MOST_LOST = 0.1  # share of the connections that need not be open at the same time
POLL_S = 0.5
ESTABLISHED = b"01"  # the state of a connection in /proc/net/tcp


@dataclass(frozen=True)
class Attack:
    """The processes of the slow clients, and the ports of their open connections, by kind."""

    pids: Mapping[str, int]
    ports: Mapping[str, set[int]]

    def cpu_s(self) -> float:
        """Return the CPU time that the processes have used; those that have ended count, too."""
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self.pids.values())

    def memory_mib(self) -> float:
        """Return the memory of the processes."""
        return sum(psutil.Process(pid).memory_info().rss for pid in self.pids.values()) / 2**20


def inject(server: str, size: Size) -> Outcome:
    """Measure good clients alone, then beside slow ones of all kinds, then alone again."""
    concurrent_clients.allow_connections(len(KINDS) * size.slow)
    with faulty(server, "nap") as target:
        base = _alone(target, size)
        with _attack(target, size.slow) as attack:
            began, cpu_s, memory_mib = time.monotonic(), attack.cpu_s(), attack.memory_mib()
            with concurrent_clients.steady(target.port, WORKERS, PATIENCE_S) as attacked:
                time.sleep(DEADLINE_S)
            busy = (attack.cpu_s() - cpu_s) / (time.monotonic() - began)
            closed = _closed_s(target.port, attack.ports, began, size.slack)
        base.all.extend(_alone(target, size).all)
        alive = target.is_alive()
    base_s, p99_s = base.p99_s(), attacked.p99_s()
    is_attacked = all(len(ports) >= (1 - MOST_LOST) * size.slow for ports in attack.ports.values())
    found = [_describe(attack), f"they used {percent(busy)} of a core and {memory_mib:.0f} MiB"]
    found.append(f"p99 {_format(p99_s)}, without them {_format(base_s)}")
    found.append(f"{attacked.failed} of {len(attacked.all)} requests failed")
    found += [f"{kind} {after('closed', at)}" for kind, at in closed.items()]
    is_kept = (
        is_attacked
        and not attacked.failed
        and None not in closed.values()
        and (p99_s is not None and base_s is not None)
        and p99_s <= size.slack * MOST_SLOWDOWN * base_s
    )
    return judge_server(is_kept, found, alive)


def _alone(target: FaultyServer, size: Size) -> concurrent_clients.Samples:
    with concurrent_clients.steady(target.port, WORKERS, PATIENCE_S) as samples:
        time.sleep(5 * size.interval_s)
    return samples


@contextmanager
def _attack(target: FaultyServer, count: int) -> Iterator[Attack]:
    """Open `count` slow connections of each kind; yield them with the ports that are open.

    Only slow readers need large responses, so they connect first, while the task returns these.
    The bodies start half an interval after the headers, so that slowhttptest sends their pieces
    alternately.
    """
    target.act("large")
    calls = target.calls() + count
    with slow(READERS, target.port, count) as readers:
        wait_until(lambda: target.calls() >= calls, START_S)
        target.act("nap")
        with slow(HEADERS, target.port, count) as headers:
            time.sleep(slow_connections.INTERVAL_S / 2)
            with slow(BODY, target.port, count) as bodies:
                pids = {HEADERS: headers, BODY: bodies, READERS: readers}
                wait_until(lambda: _are_open(target.port, pids, count), START_S, POLL_S / 2)
                yield Attack(pids, {kind: _ports(target.port, pids[kind]) for kind in KINDS})


def _are_open(port: int, pids: Mapping[str, int], count: int) -> bool:
    """Whether each process has `count` connections; the fast check of their sum comes first."""
    return len(_open_ports(port)) >= len(pids) * count and all(
        len(_ports(port, pid)) >= count for pid in pids.values()
    )


def _ports(port: int, pid: int) -> set[int]:
    """Return the ports of the connections of a process, which may have ended, to the server."""
    with suppress(psutil.Error):
        return {
            each.laddr.port
            for each in psutil.Process(pid).net_connections("tcp4")
            if each.raddr
            and each.laddr
            and each.raddr.port == port
            and each.status == psutil.CONN_ESTABLISHED
        }
    return set()


def _closed_s(
    port: int, attackers: Mapping[str, set[int]], began: float, slack: float
) -> dict[str, float | None]:
    """Return when all connections of each kind were found closed; None if they were not in time.

    The first check is after the deadline, when the good clients have ended: the kernel's table also
    has the connections of the last minute. With 20,000 of them, reading it took up to 0.3 s.
    """
    closed: dict[str, float | None] = dict.fromkeys(attackers)
    while None in closed.values() and time.monotonic() - began <= DEADLINE_S + slack * LATE_S:
        is_open = _open_ports(port)
        for kind, ports in attackers.items():
            if closed[kind] is None and not ports & is_open:
                closed[kind] = time.monotonic() - began
        time.sleep(POLL_S)
    return closed


def _open_ports(port: int) -> set[int]:
    """Return the ports of the clients whose connections the server has not closed."""
    try:
        table = Path("/proc/net/tcp").read_bytes()
    except OSError as error:
        what = f"/proc/net/tcp: {error.strerror}"
        raise MachineError(what, "use Linux, which lists connections there") from error
    own = rb"^ *\d+: [0-9A-F]{8}:%04X [0-9A-F]{8}:([0-9A-F]{4}) %b " % (port, ESTABLISHED)
    return {int(client, 16) for client in re.findall(own, table, re.MULTILINE)}


def _describe(attack: Attack) -> str:
    counts = ", ".join(f"{len(ports)} {kind}" for kind, ports in attack.ports.items())
    how = slow_connections.TOOL if slow_connections.tool(HEADERS) else "own sockets"
    return f"slow connections: {counts} ({how})"


def _format(value: float | None) -> str:
    return "unknown" if value is None else seconds(value)


ROW = Row(
    "R6",
    "500 slow clients of each kind at once: they send headers slowly, send bodies or read slowly",
    "they are closed at the deadline of 10 s; for others p99 is at most doubled",
    inject,
    ("loop", "threads", "processes", "pipes", "pebble", "prefork"),
    others={
        "plain_threads": "Tornado's own deadline is an hour for headers, and none for bodies",
        "gunicorn_sync": "each worker waits for one connection at a time",
        "uvicorn_workers": "it has no deadline for a request or a response",
        "granian_asgi": "it has its own deadlines, or none",
    },
    skipped={"sync": "it serves one connection at a time: a slow one blocks the others for 10 s"},
)
