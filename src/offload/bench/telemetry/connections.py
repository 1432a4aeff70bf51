"""Connections: how many of those that a load keeps each process of a server has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

ESTABLISHED, LISTENING = "01", "0A"  # as /proc/net/tcp has them
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def count_connections(processes: Sequence[psutil.Process], port: int) -> tuple[int, ...] | None:
    """Count the established connections of each process that takes some on `port`, most first.

    That is one that has some, or that listens without a child that does: a parent often keeps the
    port for its workers. None when there is no connection, or where the system does not tell.
    """
    inodes = _inodes(port)
    sockets = {p.pid: _sockets(p.pid) for p in processes}
    counts = {pid: len(own & inodes[ESTABLISHED]) for pid, own in sockets.items()}
    listening = {pid for pid, own in sockets.items() if own & inodes[LISTENING]}
    parents = _parents(p for p in processes if p.pid in listening)
    taking = [n for pid, n in counts.items() if n or pid in listening - parents]
    return tuple(sorted(taking, reverse=True)) if any(taking) else None


def _inodes(port: int) -> dict[str, set[str]]:
    """Give the sockets at a local port by their state; thousands of others may be waiting."""
    found: dict[str, set[str]] = {ESTABLISHED: set(), LISTENING: set()}
    end = f":{port:04X}"
    for table in TABLES:
        with suppress(OSError):  # no Linux, or no IPv6
            for line in Path(table).read_text().splitlines():
                if end in line:
                    words = line.split()
                    if words[1].endswith(end) and words[3] in found:
                        found[words[3]].add(f"socket:[{words[9]}]")
    return found


def _sockets(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):  # it ended, or is not ours
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
