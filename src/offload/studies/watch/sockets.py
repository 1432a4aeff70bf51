"""The sockets of watched processes: listen queues, connections, and requests in progress."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from offload.engine import host
from offload.engine.sockets import (
    CLOSE_WAIT,
    ESTABLISHED,
    INFO,
    LISTENING,
    NOT_REPORTED,
    Socket,
    dropped_connections,
    open_sockets,
    parents_of,
    read_sockets,
)

SHARE = 0.003  # maximum use of a core for readings
FEWEST = 20  # requests, from which a mean response time is known to a quarter
OTHER_NETWORK = (
    "pid {pid} has a network of its own, as in a container, so its connections are unknown: run "
    "watch in it"
)
OTHER_USER = "only its user and root may see the connections of pid {pid}"


@dataclass
class SocketUse:
    """The sockets of a process tree while it was watched.

    By port: the `places` of the listen queue, and the connections that it `dropped`. By process,
    over the `readings`: the sums of its connections and of its requests `in_progress`, and the
    number of `requests` in connections that remained open. `opened` is the number of connections
    that were opened to any port of the machine. `why` is the
    reason if the sockets are unknown. `kept` are the sums of those connections that were there in
    the reading before, `kept_in_progress` and `kept_requests` those of their requests; there were
    `pairs` of such readings in `kept_seconds`. `accepting` are the processes that listen, without a
    parent that only holds the socket for them.
    """

    readings: int = 0
    seconds: float = 0.0
    dropped: dict[int, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    connections: Counter[int] = field(default_factory=Counter)
    in_progress: Counter[int] = field(default_factory=Counter)
    requests: Counter[int] = field(default_factory=Counter)
    opened: int | None = None
    why: str | None = None
    kept: Counter[int] = field(default_factory=Counter)
    kept_in_progress: Counter[int] = field(default_factory=Counter)
    kept_requests: Counter[int] = field(default_factory=Counter)
    pairs: int = 0
    kept_seconds: float = 0.0
    accepting: frozenset[int] = frozenset()

    def response_s(self, pid: int) -> float | None:
        """Return the mean response time on kept connections, by Little's law; None if unknown."""
        if not self.pairs or self.kept_requests[pid] < FEWEST:
            return None
        in_progress = self.kept_in_progress[pid] / self.pairs
        return in_progress * self.kept_seconds / self.kept_requests[pid]

    def most_requests_per_s(self, pid: int) -> float | None:
        """Return an upper limit of the rate of requests to a process; None if it is unknown.

        Each connection that was opened may have been a request to this process.
        """
        if not self.places or not self.seconds or self.opened is None:
            return None
        return (self.requests[pid] + self.opened) / self.seconds


class SocketMeter:
    """Read the sockets of a process tree; `root` is its first process."""

    def __init__(self, root: int) -> None:
        self._use = SocketUse()
        self._due = 0.0
        self._dropped: dict[int, int] = {}  # at the first reading, by port
        self._received: dict[int, int] = {}  # by inode
        self._opened: int | None = None
        if not os.access(f"/proc/{root}/fd", os.R_OK):
            self._use.why = OTHER_USER.format(pid=root)
        elif _network(root) != _network("self"):
            self._use.why = OTHER_NETWORK.format(pid=root)

    def read(self, pids: Iterable[int], seconds: float) -> None:
        """Read the sockets if that is due; `seconds` is the time since the start."""
        if self._use.why is not None or seconds < self._due:
            return
        began = time.thread_time()  # not the time in which other programs run
        owners: dict[int, set[int]] = {}
        for pid in pids:
            for link in open_sockets(pid):
                if link.startswith("socket:["):
                    owners.setdefault(int(link[8:-1]), set()).add(pid)
        try:
            every = read_sockets((LISTENING, ESTABLISHED, CLOSE_WAIT), INFO)
            found = [each for each in every if each.inode in owners]
        except NOT_REPORTED:
            self._use.why = "this system does not report sockets"
            return
        opened = host.tcp_counter("Tcp", "PassiveOpens")
        self._add(found, owners, seconds, None if opened is None else int(opened))
        self._received = {each.inode: each.segments[0] for each in found}
        self._due = seconds + (time.thread_time() - began) / SHARE

    def use(self) -> SocketUse:
        """Return the use so far."""
        return self._use

    def _add(
        self,
        found: Iterable[Socket],
        owners: dict[int, set[int]],
        seconds: float,
        opened: int | None,
    ) -> None:
        use = self._use
        is_first = not use.readings
        if not is_first:
            use.pairs += 1
            use.kept_seconds += seconds - use.seconds
        if opened is not None:
            self._opened = opened if self._opened is None else self._opened
            use.opened = opened - self._opened
        use.readings += 1
        use.seconds = seconds
        listening = {pid for each in found if each.listens for pid in owners[each.inode]}
        use.accepting = frozenset(listening - parents_of(listening))
        ports = {each.port for each in found if each.listens}
        for each in found:
            port = each.port
            if each.listens:
                use.places[port] = max(use.places.get(port, 0), each.most)
                if (dropped := dropped_connections(port)) is not None:
                    self._dropped.setdefault(port, dropped)
                    use.dropped[port] = dropped - self._dropped[port]
                continue
            if port not in ports:  # a connection to another server, such as a database
                continue
            received, _ = each.segments
            # Of a socket that several processes have, the last one that was started accepted it.
            pid = max(owners[each.inode])
            use.connections[pid] += 1
            use.in_progress[pid] += each.is_in_progress
            before = self._received.get(each.inode)
            if before is not None:
                use.kept[pid] += 1
                use.kept_in_progress[pid] += each.is_in_progress
                use.kept_requests[pid] += max(0, received - before)
            elif is_first:
                before = received
            use.requests[pid] += max(0, received - (before or 0))


def _network(pid: int | str) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:  # that of another user; it is most likely the same
        return str(Path("/proc/self/ns/net").readlink())
