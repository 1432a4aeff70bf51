"""R5: many more clients than the workers can serve, with protect=yes."""

from __future__ import annotations

import http.client
import time

import psutil

from lab.faults.clients import concurrent_clients, overload_clients
from lab.faults.row import Outcome, Row, Size
from lab.faults.servers.faulty_server import FaultyServer, faulty
from offload.units import percent, seconds

TASK_S, WORKERS, PATIENCE_S = 1.0, 4, 10.0
LEAST_GOODPUT = 0.95  # share of the rate that the workers can reach
LEAST_GOODPUT_SHORT = 0.8  # in an overload that is shorter than PATIENCE_S
MOST_WAIT_S = 2.0
MOST_GROWTH_MIB = 20.0  # for each 1,000 clients
NEXT_S = 60.0  # timeout in s of the single client
UNPROTECTED = "-unprotected"


def inject(server: str, size: Size) -> Outcome:
    """Overload the server, and then send one request."""
    protect = "no" if server.endswith(UNPROTECTED) else "yes"
    name = server.removesuffix(UNPROTECTED)
    concurrent_clients.allow_connections(size.overload_clients)
    with faulty(name, "a second", {"protect": protect, "backlog": 8192}, WORKERS) as target:
        before = _rss_mib(target)
        found = overload_clients.overload(
            target.port, size.overload_clients, size.overload_s + TASK_S, PATIENCE_S
        )
        next_s = _next_client_s(target.port)
        growth = _rss_mib(target) - before
    goodput = found.rate(TASK_S, size.overload_s + TASK_S) * TASK_S / WORKERS
    waited = f"over {seconds(NEXT_S)}" if next_s is None else seconds(next_s)
    figure = (
        f"{size.overload_clients} clients: goodput {percent(goodput)}, {found.refused} refused, "
        f"{found.gave_up} gave up; next client {waited}; memory {growth:+.1f} MiB"
    )
    in_time = next_s is not None and next_s <= MOST_WAIT_S
    least = LEAST_GOODPUT if size.overload_s >= PATIENCE_S else LEAST_GOODPUT_SHORT
    is_small = growth <= MOST_GROWTH_MIB * max(1.0, size.overload_clients / 1000)
    return Outcome(goodput >= least and in_time and is_small, figure)


def _next_client_s(port: int) -> float | None:
    """Return how long a single client waits for its response, in s; None after NEXT_S."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=NEXT_S)
    try:
        while time.monotonic() - began < NEXT_S:
            connection.request("GET", "/")
            response = connection.getresponse()
            response.read()
            if response.status == 200:
                return time.monotonic() - began
            time.sleep(0.05)
    except OSError:
        pass
    finally:
        connection.close()
    return None


def _rss_mib(target: FaultyServer) -> float:
    """Return the memory of the server's own process: only this one holds requests."""
    return float(psutil.Process(target.pid).memory_info().rss) / 2**20


ROW = Row(
    "R5",
    "overload: 1,000 clients, 4 workers, tasks of 1 s (protect=yes)",
    "goodput of at least 95 %, the next client waits at most 2 s, at most 20 MiB more memory "
    "(for more clients: 20 MiB per 1,000)",
    inject,
    ("threads", "processes", "pipes"),
    others={
        f"{name}{UNPROTECTED}": "protect=no: it also completes requests of clients that have left"
        for name in ("threads", "processes", "pipes")
    },
    skipped={"sync": "it has no protection"},
)
