"""Which programs of this machine use CPU during a load: those that the server calls, and others.

A database or a service beside the server uses CPU because of the load: it is no disturbance. The
kernel reports both ends of each connection. A program of another user is known by the user of its
socket, because only root may see the sockets of a process of somebody else.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from offload.engine.host import BUSY_CORES, MOST_NAMED
from offload.engine.processes import CONNECTED, INODE, LISTEN, open_sockets, socket_messages
from offload.errors import escaped

PORTS, ADDRESSES, UID, SOCKET_INODE = struct.Struct(">HH"), slice(8, 40), 64, 68
MAPPED = b"\0" * 10 + b"\xff\xff"  # what an IPv6 socket has before an IPv4 address


class CalledServices:
    """The programs to which the processes of a server have connections on this machine.

    `port` is the server's own. The CPU time of each is counted from the construction on.
    """

    def __init__(self, port: int | None) -> None:
        self._port = port
        self._at_start = dict(_cpu_of_all())
        self._known: set[int] = set()  # ports
        self.pids: set[int] = set()

    def update(self, members: Sequence[psutil.Process], ours: Iterable[int]) -> None:
        """Find the programs that `members` call now; `ours` are counted elsewhere.

        A call takes about 20 ms, because it reads the open files of all processes.
        """
        this = psutil.Process()
        others = {*ours} | {process.pid for process in (this, *members)}
        self.pids |= self._find(members) - others
        others |= {child.pid for child in this.children(True)}  # a service may have started us
        for pid in [*self.pids]:
            with suppress(psutil.Error):
                self.pids |= {child.pid for child in psutil.Process(pid).children(True)} - others

    def _find(self, members: Iterable[psutil.Process]) -> set[int]:
        """Return the processes at the other ends of connections to ports that are not known yet."""
        own = {name for process in members for name in open_sockets(process.pid)}
        try:
            sockets = [*_sockets(CONNECTED)]
            called = {
                (each.remote, each.local)
                for each in sockets
                if each.name in own and each.local[1] != self._port
            }
            called = {ends for ends in called if ends[0][1] not in self._known}
            ports = {remote[1] for remote, _ in called}
            found = [each for each in sockets if (each.local, each.remote) in called]
            found += [each for each in _sockets(LISTEN) if each.local[1] in ports]
        except (OSError, AttributeError, struct.error):  # another system, or not permitted
            return set()
        self._known |= ports
        return _owners([each for each in found if each.name not in own])

    def cpu_s(self) -> float:
        """Return the CPU time in s of these programs and of their children since the start."""
        used = _cpu_of(self.pids)
        return sum(max(0.0, used_s - self._at_start.get(pid, 0.0)) for pid, used_s in used)

    def name_others(self, ours: Iterable[int], seconds: float) -> tuple[str, ...]:
        """Return the other programs that used most CPU since the start, the busiest one first."""
        known = {*ours, *self.pids, os.getpid()}
        cores = {
            pid: (used_s - self._at_start.get(pid, 0.0)) / max(0.1, seconds)
            for pid, used_s in _cpu_of_all()
            if pid not in known
        }
        busy = sorted((pid for pid in cores if cores[pid] >= BUSY_CORES), key=lambda p: -cores[p])
        names = []
        for pid in busy[:MOST_NAMED]:
            with suppress(psutil.Error):
                names.append(f"{escaped(psutil.Process(pid).name())} (pid {pid})")
        return tuple(names)


class _Socket:
    """A TCP socket: both its ends as (address, port), its owner, and its name in /proc/PID/fd."""

    def __init__(self, family: int, body: bytes) -> None:
        ports = PORTS.unpack_from(body, 4)
        both = body[ADDRESSES]
        addresses = [both[:16], both[16:]]
        if family == socket.AF_INET:
            addresses = [each[:4] for each in addresses]
        self.local, self.remote = (
            (address.removeprefix(MAPPED), port)
            for address, port in zip(addresses, ports, strict=True)
        )
        self.uid = INODE.unpack_from(body, UID)[0]
        self.name = f"socket:[{INODE.unpack_from(body, SOCKET_INODE)[0]}]"


def _sockets(states: int) -> Iterator[_Socket]:
    for family in (socket.AF_INET, socket.AF_INET6):
        for body in socket_messages(family, states):
            yield _Socket(family, body)


def _owners(sockets: list[_Socket]) -> set[int]:
    """Return the processes that have sockets; of other users those of the same user."""
    if not sockets:
        return set()
    names = {each.name: each.uid for each in sockets}
    found, seen = set[int](), set[str]()
    for pid in psutil.pids():
        if own := open_sockets(pid) & names.keys():
            found.add(pid)
            seen |= own
    hidden = {uid for name, uid in names.items() if name not in seen} - {0, os.getuid()}
    for process in psutil.process_iter() if hidden else ():
        with suppress(psutil.Error):
            if process.uids().real in hidden:
                found.add(process.pid)
    return found


def _cpu_of_all() -> Iterator[tuple[int, float]]:
    return _cpu_of(psutil.pids())


def _cpu_of(pids: Iterable[int]) -> Iterator[tuple[int, float]]:
    """Yield the CPU time in s of each process that can be read."""
    for pid in pids:
        with suppress(OSError, IndexError, ValueError):
            words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            yield pid, (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
