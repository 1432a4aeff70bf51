"""Check how many clients a server satisfies under overload, with and without protect=yes.

Usage: python -m scripts.checks.overload [CLIENTS] [SERVER...]

CLIENTS clients (default: 1000) send requests for 20 s to a server with 4 workers, whose task takes
1 s. Each client waits for at most 10 s and then tries again. After that, one client sends a single
request. The servers are threads, processes and pipes unless others are named. It prints:

Goodput      responses of status 200 that a client still waited for, per second, as a share of the
             4 per second that the workers can serve; the first second has no response, so it is
             left out
Next client  seconds until the response of the single client
Memory       growth of the server's memory (RSS) in MiB

The exit code is 1 if a protected server has a goodput of less than 95 %, if its next client waits
for more than 2 s, or if its memory grows by more than 20 MiB.
"""

from __future__ import annotations

import http.client
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from offload.bench.target import server
from offload.cli import arguments
from offload.reports.tables import text_table
from offload.reports.tables.text_table import Line
from offload.suites import Case
from offload.units import percent
from scripts.script import run
from tests.servers.protection.clients import rage

SERVERS = ("threads", "processes", "pipes")
TASK, TASK_S, WORKERS = "sleep_second_sync", 1.0, 4
CLIENTS, SECONDS, PATIENCE = 1000, 20.0, 10.0
GOODPUT, WAITED_S, GROWTH_MIB = 0.95, 2.0, 20.0
NEXT_S = 60.0  # timeout in s of the single client
HEAD = ("Server", "protect", "Goodput", "Refused", "Gave up", "Next client", "Memory")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one storm; `next_s` is None if the single client had no response."""

    server: str
    is_protected: bool
    goodput: float
    refused: int
    gave_up: int
    next_s: float | None
    growth_mib: float

    @property
    def passed(self) -> bool:
        """Whether a protected server kept its promise; one without protection has none."""
        in_time = self.next_s is not None and self.next_s <= WAITED_S
        kept = self.goodput >= GOODPUT and in_time and self.growth_mib <= GROWTH_MIB
        return kept or not self.is_protected

    @property
    def row(self) -> Sequence[str]:
        """The row of the table."""
        waited = f"> {NEXT_S:.0f} s" if self.next_s is None else f"{self.next_s:.2f} s"
        return (
            self.server,
            "yes" if self.is_protected else "no",
            percent(self.goodput),
            str(self.refused),
            str(self.gave_up),
            waited,
            f"{self.growth_mib:+.1f} MiB",
        )


def main(words: list[str]) -> int:
    """Run the storms, and print the table."""
    count = CLIENTS
    if words and words[0].isdigit():
        count = arguments.whole_number("CLIENTS", words.pop(0), 1, 20_000)
    _raise_file_limit(count)
    found = []
    for name in words or SERVERS:
        for is_protected in (True, False):
            found.append(_storm(name, is_protected, count))
            print(" ".join(map(str, found[-1].row)), file=sys.stderr, flush=True)
    print(text_table.render(HEAD, [Line(each.row) for each in found]))
    return 0 if all(each.passed for each in found) else 1


def _storm(name: str, is_protected: bool, clients: int) -> Outcome:
    protect = {"protect": "yes"} if is_protected else {}
    case = Case(
        name, TASK, users=clients, settings={"workers": WORKERS, "backlog": 8192, **protect}
    )
    running = server.start(case, {})
    try:
        before_mib = _rss_mib(running)
        storm = rage(int(str(running.facts["port"])), clients, SECONDS + TASK_S, PATIENCE)
        next_s = _next_client_s(running.url)
        growth_mib = _rss_mib(running) - before_mib
    finally:
        server.stop(running, server.SHORT_DRAIN)
    goodput = storm.rate(TASK_S, SECONDS + TASK_S) * TASK_S / WORKERS
    return Outcome(name, is_protected, goodput, storm.refused, storm.impatient, next_s, growth_mib)


def _next_client_s(url: str) -> float | None:
    """Return how long a single client waits for its response, in s."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=NEXT_S)
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


def _rss_mib(running: server.Server) -> float:
    """Return the memory of the server's own process: only this one holds requests."""
    return float(psutil.Process(running.process.pid).memory_info().rss) / 2**20


def _raise_file_limit(clients: int) -> None:
    """Allow a connection for each client, here and in the server."""
    needed = 4 * clients + 256
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


if __name__ == "__main__":
    run(main)
