"""Find the processes that listen on a port, and count the connections of each process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

ESTABLISHED, LISTENING = "01", "0A"  # states in /proc/net/tcp
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def count_connections(processes: Sequence[psutil.Process], port: int) -> tuple[int, ...] | None:
    """Return the number of established connections on `port` per accepting process, descending.

    A process is accepting if it has connections, or if it listens and no child of it listens: a
    parent often only keeps the port open for its workers. None if there is no connection, or if
    the system does not report connections.
    """
    inodes = _inodes(port)
    sockets = {p.pid: _sockets(p.pid) for p in processes}
    counts = {pid: len(own & inodes[ESTABLISHED]) for pid, own in sockets.items()}
    listening = accepting_pids(processes, port)
    accepting = [n for pid, n in counts.items() if n or pid in listening]
    return tuple(sorted(accepting, reverse=True)) if any(accepting) else None


def accepting_pids(processes: Sequence[psutil.Process], port: int) -> tuple[int, ...]:
    """Return the pids of those processes that listen on a port and have no child that listens."""
    inodes = _inodes(port)[LISTENING]
    listening = [process for process in processes if _sockets(process.pid) & inodes]
    parents = _parents(listening)
    return tuple(process.pid for process in listening if process.pid not in parents)


def listening_roots(port: int) -> tuple[int, ...]:
    """Return the pids of the processes that listen on a port and whose parent does not.

    Empty if there is none, or if their sockets cannot be read, because they are another user's.
    """
    if not (inodes := _inodes(port)[LISTENING]):
        return ()
    listening = [p for p in psutil.process_iter() if _sockets(p.pid) & inodes]
    pids = {process.pid for process in listening}
    return tuple(p.pid for p in listening if not _parents([p]) & pids)


def _inodes(port: int) -> dict[str, set[str]]:
    """Return the names of the sockets on a local port, by their state."""
    found: dict[str, set[str]] = {ESTABLISHED: set(), LISTENING: set()}
    end = f":{port:04X}"
    for table in TABLES:
        with suppress(OSError):  # no Linux, or no IPv6
            for line in Path(table).read_text().splitlines():
                if end in line:  # a fast check first, because there may be thousands of lines
                    words = line.split()
                    if words[1].endswith(end) and words[3] in found:
                        found[words[3]].add(f"socket:[{words[9]}]")
    return found


def _sockets(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):  # the process ended, or belongs to another user
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(str(entry.readlink()))
    return found


def _parents(processes: Iterable[psutil.Process]) -> set[int]:
    found = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found.add(process.ppid())
    return found
