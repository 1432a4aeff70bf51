"""Which programs of this machine use CPU during a load: those that the server calls, and others.

A database or a service beside the server uses CPU because of the load: it is no disturbance. How
often the server calls others is counted by the segments on its connections to them. The kernel
reports both ends of each connection. A program of another user is known by the user of its socket,
because only root may see the sockets of a process of somebody else.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

from offload.engine import host
from offload.engine.host import CounterSeries
from offload.engine.processes import tree
from offload.engine.sockets import (
    ESTABLISHED,
    INFO,
    LISTENING,
    NOT_REPORTED,
    Socket,
    open_sockets,
    read_sockets,
)

SERVICES = "services_s"  # the name of the counter
EVERY_S = 0.4  # s between two readings
SEARCHES = (0, 2, 6)  # readings before a search for services


class ProgramSampler:
    """The CPU use of the services that a server calls during a load, and of all other programs.

    Without a `pid` nothing is read. `ours` are counted elsewhere: they and their children are
    neither. `port` is the server's own.
    """

    def __init__(self, pid: int | None, ours: Sequence[int] = (), port: int | None = None) -> None:
        self._pid, self._port = pid, port
        self._ours = {process.pid for each in ours for process in tree(each)}
        self._before: dict[psutil.Process, tuple[str, float]] = {}
        self._ports: set[int] = set()  # of services that are known
        self._series = CounterSeries()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read_until_stopped, daemon=True)
        self._segments: list[tuple[float, dict[int, tuple[int, int]]]] = []  # by inode
        self._outgoing: set[int] = set()  # at the last search, by inode
        self._kept: list[float] = []  # shares of the connections that were there before
        self._sent_again: list[bool] = []  # of each connection that was not there before
        self.used_connections: int | None = None  # to others, of those between two searches; most
        self.services: set[psutil.Process] = set()
        self.others: tuple[str, ...] = ()  # the busiest ones, once the load has ended

    def __enter__(self) -> ProgramSampler:
        if self._pid is not None:
            self._before = host.cpu_times()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid is None:
            return
        self._stopped.set()
        self._thread.join()
        self._read()
        own = {each.pid for pid in (self._pid, os.getpid()) for each in tree(pid)} | self._ours
        own |= {each.pid for each in self.services}
        found = host.busiest_processes(self._before, host.cpu_times(), self._series.seconds)
        others = [each for each in found if each.pid not in own]
        self.others = tuple(each.title for each in others[: host.MOST_NAMED])

    def between(self, began: float | None, ended: float | None) -> float | None:
        """Return the CPU time in s of the called services in a window of time.monotonic().

        If `began` or `ended` is None, use all readings. None if nothing was read.
        """
        window = None if began is None or ended is None else (began, ended)
        return self._series.increase(SERVICES, window)

    @property
    def calls_per_s(self) -> float | None:
        """How often the server sent something to others and had a response; None if unknown.

        Segments are counted, in the direction that has fewer. An inode that is used again counts 0.
        """
        if len(self._segments) < 2:
            return None
        received = sent = 0
        for (_, before), (_, now) in itertools.pairwise(self._segments):
            for inode, (received_now, sent_now) in now.items():
                received_then, sent_then = before.get(
                    inode, (0, 0)
                )  # a new connection has had none
                received += max(0, received_now - received_then)
                sent += max(0, sent_now - sent_then)
        return min(received, sent) / (self._segments[-1][0] - self._segments[0][0])

    @property
    def kept(self) -> float | None:
        """The share of its connections that remain until the next search; None without one."""
        return sum(self._kept) / len(self._kept) if self._kept else None

    @property
    def sent_again(self) -> float | None:
        """The share of new connections on which it waits for a second response; None without one.

        An HTTP client that opens one for each request waits for its first response.
        """
        return sum(self._sent_again) / len(self._sent_again) if self._sent_again else None

    def _read_until_stopped(self) -> None:
        for number in itertools.count():
            self._read()
            if self._stopped.wait(EVERY_S):
                return
            if number in SEARCHES and self._pid is not None:
                self.update(tree(self._pid))

    def _read(self) -> None:
        """Read the CPU time of the services since the load began, as far as they still run."""
        used_s = 0.0
        for process in self.services:
            with suppress(psutil.Error):
                times = process.cpu_times()
                used_s += times.user + times.system - self._before.get(process, ("", 0.0))[1]
        self._series.add(time.monotonic(), {SERVICES: used_s})

    def update(self, members: Sequence[psutil.Process]) -> None:
        """Find the services that the processes of the server call now.

        A call takes about 20 ms, because it reads the open files of all processes.
        """
        this = psutil.Process()
        without = {this, *members}
        found = {each for each in self._find(members) if each.pid not in self._ours} - without
        without |= {*this.children(recursive=True)}  # a service may have started this program
        for process in [*self.services, *found]:
            with suppress(psutil.Error):
                found |= {*process.children(recursive=True)} - without
        self.services |= found

    def _note(self, outgoing: Sequence[Socket]) -> None:
        """Note the segments of connections to others, without those inside the server."""
        inside = {(each.remote, each.local) for each in outgoing}
        others = [
            each
            for each in outgoing
            if (each.local, each.remote) not in inside and each.remote[1] != self._port
        ]
        segments = {each.inode: each.segments for each in others}
        before, self._outgoing = self._outgoing, {each.inode for each in outgoing}
        if before or (self._segments and self._outgoing):
            fewest = max(1, min(len(before), len(self._outgoing)))  # a pool may still grow
            self._kept.append(len(before & self._outgoing) / fewest)
            self._sent_again += [each.sent_again for each in others if each.inode not in before]
        if self._segments:
            last = self._segments[-1][1]
            used = sum(segments != last.get(inode) for inode, segments in segments.items())
            self.used_connections = max(used, self.used_connections or 0)
        self._segments.append((time.monotonic(), segments))

    def _find(self, members: Sequence[psutil.Process]) -> set[psutil.Process]:
        """Return the processes at the other ends of connections to ports that are not known yet."""
        own = {name for process in members for name in open_sockets(process.pid)}
        try:
            sockets = [*read_sockets((ESTABLISHED,), INFO)]
            outgoing = [each for each in sockets if each.name in own and each.port != self._port]
            self._note(outgoing)
            called = {(each.remote, each.local) for each in outgoing}
            called = {ends for ends in called if ends[0][1] not in self._ports}
            ports = {remote[1] for remote, _ in called}
            found = [each for each in sockets if (each.local, each.remote) in called]
            found += [each for each in read_sockets((LISTENING,)) if each.port in ports]
        except NOT_REPORTED:
            return set()
        self._ports |= ports
        return _owners([each for each in found if each.name not in own])


def _owners(sockets: list[Socket]) -> set[psutil.Process]:
    """Return the processes that have sockets; of other users those of the same user."""
    names = {each.name: each.uid for each in sockets}
    found, seen = set[psutil.Process](), set[str]()
    every = [*psutil.process_iter()] if sockets else []
    for process in every:
        if own := open_sockets(process.pid) & names.keys():
            found.add(process)
            seen |= own
    hidden = {uid for name, uid in names.items() if name not in seen} - {0, os.getuid()}
    for process in every if hidden else ():
        with suppress(psutil.Error):
            if process.uids().real in hidden:
                found.add(process)
    return found
