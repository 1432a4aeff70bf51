"""The agreed start: the times of a load, and the part of each host in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.errors import UsageError
from offload.loads import Load
from offload.loads.engine.processes import divide
from offload.loads.engine.shared_state import AgreedTimes

LEAD_S = 0.3  # s from the agreement to the start, in addition to twice the longest round trip


@dataclass(frozen=True)
class Part:
    """The part of a host: its users and processes.

    `first` is the number of its first process among the processes of all hosts.
    """

    users: int
    first: int
    processes: int


def whole(load: Load, hosts: int) -> Load:
    """Return the load of all hosts together; `load.processes` is that of each host.

    Its window has a fixed length, because each host determines its end itself. The users of a
    closed loop stop at its end, so that every request has a response.
    """
    window = load.window
    if window.cycles or window.completions:
        raise UsageError("several hosts need a window with a fixed length")
    if load.each is not None:
        raise UsageError("several hosts cannot send a warm-up")
    processes, refills = load.processes * hosts, load.arrivals is not None
    if processes > load.users:
        what = f"users={load.users}: fewer than {processes} load processes on {hosts} hosts"
        raise UsageError(what, "use more users, or fewer hosts")
    return replace(load, processes=processes, window=replace(window, refills=refills))


def parts(load: Load, hosts: int) -> list[Part]:
    """Divide a load among hosts, as a load is divided among processes."""
    count = load.processes // hosts
    users = [each.users for each in divide(load)]
    return [
        Part(sum(users[first : first + count]), first, count)
        for first in range(0, load.processes, count)
    ]


def times(load: Load, now: float, round_trips_s: Sequence[float]) -> AgreedTimes:
    """Return when the hosts start a load, and their window, in s of the reference clock."""
    start = now + LEAD_S + 2 * max(round_trips_s)
    began = start + load.window.warm
    return AgreedTimes(start, began, None if load.seconds is None else began + load.seconds)
