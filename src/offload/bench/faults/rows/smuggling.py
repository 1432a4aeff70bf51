"""R8-nginx: requests that contain a second one, sent through nginx."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from offload.bench.faults.machine.waiting import wait_until
from offload.bench.faults.requests import attack, exchange, smuggling
from offload.bench.faults.row import Outcome, Row, Size
from offload.bench.faults.rows import malformed_requests
from offload.bench.faults.servers import reverse_proxy
from offload.bench.faults.servers.faulty_server import faulty
from offload.bench.faults.servers.reverse_proxy import ForwardedRequest, Proxy

LATE_S = 1.0  # for calls of the task that are not expected
SHOWN = 3  # attempts
ATTEMPTS = 10  # for each of `Size.requests`


@dataclass(frozen=True)
class Attempt:
    """A request to send on one of the ports of nginx; its name describes how it was built."""

    name: str
    port: int
    data: bytes


@dataclass
class SmugglingResult:
    """What happened to the attempts.

    `forwarded` is the number of requests that nginx forwarded, and `expected` how many of them may
    have run the task, from nginx's log. `calls` is the server's own number of calls of the task.
    `disturbed` are the attempts after which another user's request was not served, `suspects` those
    with more calls than expected while they were sent.
    """

    attempts: int = 0
    forwarded: int = 0
    expected: int = 0
    calls: int = 0
    disturbed: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        """Whether no second request reached the server."""
        return self.attempts > 0 and self.calls <= self.expected and not self.disturbed

    @property
    def figure(self) -> str:
        """The counts in words."""
        found = [
            f"{self.attempts} requests, {self.forwarded} forwarded by nginx",
            f"{max(0, self.calls - self.expected)} second requests served",
            f"{len(self.disturbed)} requests of other users failed",
        ]
        found += [f"first: {name}" for name in (*self.suspects, *self.disturbed)[:SHOWN]]
        return "; ".join(found)


def inject(server: str, size: Size) -> Outcome:
    """Send the attempts through nginx, each followed by the request of another user."""
    with (
        faulty(server, "ok", malformed_requests.SETTINGS, workers=2) as target,
        reverse_proxy.in_front_of(target.port) as proxy,
    ):
        found = smuggle(proxy, target.calls, ATTEMPTS * size.requests)
    return Outcome(found.is_kept, found.figure)


def smuggle(proxy: Proxy, calls: Callable[[], int], most: int) -> SmugglingResult:
    """Send about `most` attempts, evenly chosen from all, each followed by another user's request.

    `calls` returns the number of tasks that the server has run.
    """
    found, before = SmugglingResult(), calls()
    every = [*_attempts(proxy)]
    counts = [before]  # of calls: before the first attempt, and after each one
    chosen = every[:: max(1, len(every) // most) | 1]  # an odd step chooses both payloads
    for number, attempt in enumerate(chosen):
        exchange.send(attempt.port, attempt.data, attack.LIMIT_S)
        if not attack.is_served(attempt.port, smuggling.plain(b"%d" % number)):
            found.disturbed.append(attempt.name)
        counts.append(calls())
    proxy.stop()  # completes its log, and closes its connections to the server
    forwarded = proxy.forwarded_requests()
    found.attempts, found.forwarded = len(chosen), len(forwarded)
    found.expected = sum(request.tasks for request in forwarded)
    wait_until(lambda: calls() - before > found.expected, LATE_S)
    found.calls = calls() - before
    expected = _expected_by_attempt(forwarded, len(chosen))
    found.suspects = [
        attempt.name
        for attempt, start, end, own in zip(chosen, counts, counts[1:], expected, strict=False)
        if end - start > own
    ]
    return found


def _attempts(proxy: Proxy) -> Iterator[Attempt]:
    for how, port in proxy.ports.items():
        for technique, build in smuggling.TECHNIQUES.items():
            for payload, second in smuggling.PAYLOADS.items():
                yield Attempt(f"{technique}, {payload}, {how}", port, build(second(b"0")))


def _expected_by_attempt(forwarded: Sequence[ForwardedRequest], attempts: int) -> list[int]:
    """Return the number of tasks that each attempt and the user's request after it should run."""
    expected, number = [0] * attempts, 0
    for request in forwarded:
        if number < attempts:
            expected[number] += request.tasks
        if request.target == f"/?user={number}":
            number += 1
    return expected


ROW = Row(
    "R8-nginx",
    "requests that contain a second one, through nginx: CL.TE, TE.CL, TE.TE, CL.CL, CL.0, chunks",
    "the server runs no task for a second request, and the next user's request is served",
    inject,
    ("sync", "loop", "threads", "processes", "pipes", "pebble", "prefork"),
    others=dict.fromkeys(malformed_requests.ROW.others, "measured for comparison"),
)
