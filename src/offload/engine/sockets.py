"""The TCP sockets of this network namespace, and the processes that have them (Linux).

Netlink's sock_diag reports them to every user, with their queues and their segments. Which process
has a socket is in /proc/PID/fd, which its user and root may read.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

Address = tuple[bytes, int]  # of 4 or 16 bytes, and the port

ESTABLISHED, CLOSE_WAIT, LISTENING = 1, 8, 10  # states
NOT_REPORTED = OSError, AttributeError, struct.error  # by another system, or not permitted
# What sock_diag sends: https://man7.org/linux/man-pages/man7/sock_diag.7.html
SOCK_DIAG, BY_FAMILY = 4, 20  # the netlink protocol, and its request for sockets of a family
REQUEST_DUMP = 0x301  # the flags of a request for all sockets that match
ERROR, DONE = 2, 3  # types of a response
HEADER, MESSAGE = struct.Struct("=IHHII"), 72  # sizes: a message's header, inet_diag_msg
# In inet_diag_msg: the state, the ports, the addresses, then the queues, the user and the inode.
STATE, PORTS, ADDRESSES, LAST = 1, struct.Struct(">HH"), (8, 24, 40), struct.Struct("=56xIIII")
MAPPED = b"\0" * 10 + b"\xff\xff"  # what an IPv6 socket has before an IPv4 address
ATTRIBUTE = struct.Struct("=HH")  # the head of an attribute: its length and kind
INFO, MEMORY = 2, 7  # attributes: struct tcp_info, and an array of numbers
DROPS = struct.Struct("=32xI")  # in MEMORY: the dropped connections
# In tcp_info: ms since the last data was sent, and received; segments with data.
LAST_SENT, LAST_RECEIVED, SEGMENTS = 44, 52, struct.Struct("=152xII")
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


@dataclass(frozen=True)
class Socket:
    """A TCP socket with both its ends, its owner, and the requested attribute, as bytes.

    Of one that listens, `waiting` of at most `most` connections are queued.
    """

    state: int
    local: Address
    remote: Address
    waiting: int
    most: int
    uid: int
    inode: int
    attribute: bytes = b""

    @property
    def port(self) -> int:
        """The local port."""
        return self.local[1]

    @property
    def listens(self) -> bool:
        """Whether it accepts connections."""
        return self.state == LISTENING

    @property
    def name(self) -> str:
        """Its name in /proc/PID/fd."""
        return f"socket:[{self.inode}]"

    @property
    def segments(self) -> tuple[int, int]:
        """The segments with data that it received and sent, if INFO was requested; else zeros.

        A request is usually one segment.
        """
        is_known = len(self.attribute) >= SEGMENTS.size
        received, sent = SEGMENTS.unpack_from(self.attribute) if is_known else (0, 0)
        return received, sent

    @property
    def sent_again(self) -> bool:
        """Whether something was sent after something had been received, and nothing came since.

        So it is while a client waits after a greeting, a login or a handshake.
        """
        received, sent = self.segments
        return received > 0 and sent > 0 and self._age_ms(LAST_SENT) <= self._age_ms(LAST_RECEIVED)

    def _age_ms(self, at: int) -> int:
        return int(struct.unpack_from("=I", self.attribute, at)[0])

    @property
    def is_in_progress(self) -> bool:
        """Whether a request was received, and no part of its response has been sent since."""
        received, sent = self.segments
        if not received or not sent:
            return received > 0
        return self._age_ms(LAST_RECEIVED) < self._age_ms(LAST_SENT)


def read_sockets(states: Iterable[int], attribute: int = 0, port: int = 0) -> Iterator[Socket]:
    """Yield the TCP sockets in one of the states, with an attribute.

    With a `port`, those of other ports may be left out. Raise an error of NOT_REPORTED if the
    system does not report sockets. It takes 0.1 ms, and more with hundreds.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        for body in _messages(family, states, attribute, port):
            ports, (first, second, end) = PORTS.unpack_from(body, 4), ADDRESSES
            ends = body[first:second], body[second:end]
            if family == socket.AF_INET:
                ends = ends[0][:4], ends[1][:4]
            waiting, most, uid, inode = LAST.unpack_from(body)
            local, remote = zip((each.removeprefix(MAPPED) for each in ends), ports, strict=True)
            yield Socket(
                body[STATE], local, remote, waiting, most, uid, inode, _attribute(body, attribute)
            )


def _messages(family: int, states: Iterable[int], attribute: int, port: int) -> Iterator[bytes]:
    """Yield an inet_diag_msg with its attributes for each socket; `port` is only a hint."""
    extensions = 1 << (attribute - 1) if attribute else 0
    request = struct.pack(
        "=BBBxI", family, socket.IPPROTO_TCP, extensions, sum(1 << state for state in states)
    )
    request += struct.pack(">H46x", port)  # of inet_diag_sockid only the source port
    size = HEADER.size + len(request)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as netlink:
        netlink.settimeout(1.0)
        netlink.send(HEADER.pack(size, BY_FAMILY, REQUEST_DUMP, 0, 0) + request)
        while True:
            response = netlink.recv(65536)
            while len(response) >= HEADER.size:
                length, kind, *_ = HEADER.unpack_from(response)
                if kind in (ERROR, DONE):
                    return
                yield response[HEADER.size : length]
                response = response[_aligned(length) :]


def _attribute(message: bytes, kind: int) -> bytes:
    """Return the value of an attribute of an inet_diag_msg; empty if it has none."""
    rest = message[MESSAGE:]
    while kind and len(rest) >= ATTRIBUTE.size:
        length, found = ATTRIBUTE.unpack_from(rest)
        if found == kind:
            return rest[ATTRIBUTE.size : length]
        rest = rest[_aligned(length) :]
    return b""


def _aligned(length: int) -> int:
    return max(4, (length + 3) & ~3)


def open_sockets(pid: int) -> set[str]:
    """Return the links of the open files of a process, "socket:[INODE]" of a socket.

    Empty if it has ended, or belongs to another user.
    """
    found, folder = set(), f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - a third of the time, as below
            with suppress(OSError):
                found.add(os.readlink(f"{folder}/{name}"))  # noqa: PTH115
    return found


def dropped_connections(port: int) -> int | None:
    """Return how many connections were dropped on `port` since its sockets started to listen.

    None if no socket listens, or if the system does not report the number. A call takes 0.2 ms.
    """
    try:
        found = [e for e in read_sockets((LISTENING,), MEMORY, port) if e.port == port]
        drops = [DROPS.unpack_from(each.attribute)[0] for each in found if each.attribute]
    except NOT_REPORTED:
        return None
    return sum(drops) if drops else None


def count_own_calls(pids: Sequence[int], port: int) -> int | None:
    """Return how many connections processes have to a port of this machine, such as their own.

    None if that is unknown. A call takes about 1 ms, and more with hundreds of connections.
    """
    try:
        names = {
            each.name
            for each in read_sockets((ESTABLISHED,))
            if each.remote[1] == port and each.local[0] == each.remote[0]
        }
    except NOT_REPORTED:
        return None
    own = {name for pid in pids for name in open_sockets(pid)} if names else set()
    return len(own & names) if pids else None


def count_connections(processes: Sequence[psutil.Process], port: int) -> dict[int, int]:
    """Return the number of established connections on `port` of each accepting process, by pid.

    A process is accepting if it has connections, or if it listens and no child of it listens: a
    parent often only keeps the port open for its workers. Empty if there is no connection, or if
    the system does not report connections.
    """
    connected = _names(port, ESTABLISHED)
    counts = {p.pid: len(open_sockets(p.pid) & connected) for p in processes}
    listening = accepting_pids(processes, port)
    accepting = {pid: n for pid, n in counts.items() if n or pid in listening}
    return accepting if any(accepting.values()) else {}


def accepting_pids(processes: Sequence[psutil.Process], port: int) -> tuple[int, ...]:
    """Return the pids of those processes that listen on a port and have no child that listens."""
    names = _names(port, LISTENING)
    listening = [process for process in processes if open_sockets(process.pid) & names]
    parents = parents_of(process.pid for process in listening)
    return tuple(process.pid for process in listening if process.pid not in parents)


def listening_roots(port: int) -> tuple[int, ...]:
    """Return the pids of the processes that listen on a port and whose parent does not.

    Empty if there is none, or if their sockets cannot be read, because they are another user's.
    """
    if not (names := _names(port, LISTENING)):
        return ()
    listening = [p for p in psutil.process_iter() if open_sockets(p.pid) & names]
    pids = {process.pid for process in listening}
    return tuple(p.pid for p in listening if not parents_of([p.pid]) & pids)


def parents_of(pids: Iterable[int]) -> set[int]:
    """Return the pids of the parents of those processes that still run."""
    found = set()
    for pid in pids:
        with suppress(psutil.Error):
            found.add(psutil.Process(pid).ppid())
    return found


def _names(port: int, state: int) -> set[str]:
    """Return the names of the sockets on a local port that are in a state."""
    words = _table(port)
    return {f"socket:[{each[9]}]" for each in words if int(each[3], 16) == state}


def list_peers(port: int) -> set[str]:
    """Return the addresses that are or were connected to a local port."""
    return {each[2] for each in _table(port)}


def _table(port: int) -> Iterator[list[str]]:
    """Yield the words of the lines in /proc/net/tcp that have a local port; none without Linux.

    Unlike sock_diag, each container may read this table.
    """
    end = f":{port:04X}"
    for table in TABLES:
        with suppress(OSError):  # no Linux, or no IPv6
            for line in Path(table).read_text().splitlines():
                if end in line:  # a fast check first, because there may be thousands of lines
                    words = line.split()
                    if words[1].endswith(end):
                        yield words
