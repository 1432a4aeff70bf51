"""Send many requests to one server from several connections, and count the faults."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat

from lab.faults.requests import exchange, judgement, valid
from lab.faults.requests.corpus import CASES
from lab.faults.requests.judgement import EITHER

CONNECTIONS = 16  # at once
LIMIT_S = 15.0  # for a response, and until the server closes: servers allow 10 s for a request
TOTAL_S = 900.0  # maximum duration of an attack
MOST_STALLED = 100  # messages that take longer than LIMIT_S, until the attack ends
SHOWN = 3  # kinds of faults in the figure


@dataclass(frozen=True)
class Message:
    """Bytes to send, and what must happen to the first request in them: see `judgement.fault`."""

    name: str
    data: bytes
    expected: str = EITHER


@dataclass
class Tally:
    """How many messages were sent, and what happened to them.

    `unserved` is the number of messages after which a valid request had no response of status 200.
    `faults` counts the faults by kind; `examples` has the first message of each. `stalled` counts
    the messages that took longer than LIMIT_S. `is_cut`: the attack ended before all were sent.
    """

    sent: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    unserved: int = 0
    stalled: int = 0
    is_cut: bool = False

    @property
    def figure(self) -> str:
        """The counts in words."""
        kinds = (judgement.SERVED, judgement.REFUSED, judgement.CLOSED)
        parts = ", ".join(f"{self.outcomes[kind]} {kind}" for kind in kinds)
        found = [f"{self.sent} requests: {parts}", f"{sum(self.faults.values())} faults"]
        found += ["the others were not sent, for lack of time"] if self.is_cut else []
        for kind, count in self.faults.most_common(SHOWN):
            found.append(f"{count} x {kind} (first: {self.examples[kind]})")
        return "; ".join([*found, f"{self.unserved} valid requests afterwards failed"])


def messages() -> list[Message]:
    """Return valid requests, and those of the corpus."""
    good = [Message(f"valid request {n}", data) for n, data in enumerate(valid.REQUESTS, start=1)]
    return good + [Message(f"{c.origin}, {c.name}", c.data, c.expected) for c in CASES]


def warm_up(port: int) -> None:
    """Send valid requests at once, so that the server has all its threads and descriptors."""
    run(port, [Message("warm-up", valid.LAST)] * (4 * CONNECTIONS))


def run(port: int, to_send: Iterable[Message]) -> Tally:
    """Send messages, each on its own connection, and after each one a valid request.

    After TOTAL_S, or MOST_STALLED messages that stalled, the rest is not sent.
    """
    tally, lock, waiting = Tally(), threading.Lock(), iter(to_send)
    until = time.monotonic() + TOTAL_S

    def work() -> None:
        while time.monotonic() < until and tally.stalled < MOST_STALLED:
            with lock:
                message = next(waiting, None)
            if message is None:
                return
            began = time.monotonic()
            fault, outcome, is_served = _send(port, message)
            with lock:
                tally.sent += 1
                tally.stalled += time.monotonic() - began >= LIMIT_S
                tally.outcomes[outcome] += 1
                tally.unserved += not is_served
                if fault:
                    tally.faults[fault] += 1
                    tally.examples.setdefault(fault, message.name)

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        for future in [threads.submit(work) for _ in repeat(None, CONNECTIONS)]:
            future.result()
    tally.is_cut = next(waiting, None) is not None
    return tally


def _send(port: int, message: Message) -> tuple[str, str, bool]:
    """Return the fault of a message, its outcome, and whether the next request was served."""
    fault, outcome = "", judgement.CLOSED
    try:
        found = exchange.send(port, message.data, LIMIT_S)
        fault, outcome = judgement.fault(found, message.expected), judgement.outcome(found)
    except OSError as error:
        fault = f"no connection: {error.strerror or type(error).__name__}"
    return fault, outcome, is_served(port)


def is_served(port: int, data: bytes = valid.LAST) -> bool:
    """Whether a valid request has one response, of status 200."""
    try:
        return exchange.send(port, data, LIMIT_S).responses.statuses == (200,)
    except OSError:
        return False
