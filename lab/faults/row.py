"""A row of the fault lab: a fault, what servers promise, and how the fault is injected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Size:
    """How much a row does: `full` checks the promises, `small` only that the row works.

    Limits of time are multiplied by `slack`: a small run is a test that runs beside others.
    Rows read what they need: the number of `kills` (of a worker, or of a benchmark), the seconds
    between two of them, the steady `clients`, the clients of an overload and its duration in s, the
    number of other `requests`, and the number of `slow` connections of each kind.
    """

    name: str
    kills: int
    interval_s: float
    clients: int
    overload_clients: int
    overload_s: float
    requests: int
    slow: int
    slack: float


SMALL = Size("small", 2, 0.5, 4, 100, 4.0, 5, 10, 5.0)
FULL = Size("full", 6, 1.0, 8, 1000, 20.0, 30, 500, 1.0)
SIZES = {size.name: size for size in (SMALL, FULL)}


class NotAvailable(Exception):
    """The machine lacks what is needed to inject the fault; the message is one line."""


@dataclass(frozen=True)
class Outcome:
    """What a server did: whether the promise was kept, and the figures that show it."""

    is_kept: bool
    figure: str


def judge_server(is_kept: bool, found: Sequence[str], is_alive: bool) -> Outcome:
    """Return the outcome of a server: a server that has ended has not kept its promise."""
    ended = () if is_alive else ("the server ended",)
    return Outcome(is_kept and is_alive, "; ".join((*found, *ended)))


Inject = Callable[[str, Size], Outcome]


@dataclass(frozen=True)
class Row:
    """A fault and its promise: `inject(server, size)` injects it into a fresh server.

    `servers` promise it. `others` do not, each for a reason; their outcome is measured all the
    same, unless they are in `skipped`, where the fault cannot be injected.
    """

    number: str
    fault: str
    promise: str
    inject: Inject
    servers: tuple[str, ...]
    others: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_servers(self) -> tuple[str, ...]:
        """The names of all servers of the row."""
        return (*self.servers, *self.others, *self.skipped)

    def reason(self, server: str) -> str:
        """Return why a server does not promise it; empty if it does."""
        return self.others.get(server, self.skipped.get(server, ""))
