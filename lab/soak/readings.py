"""Readings of a server's processes: memory, file descriptors and threads (Linux)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

Identity = tuple[int, float]  # the pid of a process and when it was created: pids are reused


@dataclass(frozen=True)
class ProcessReading:
    """The resources of one process.

    `memory_kib` counts pages without a file, in memory or swapped out, and shared memory. Unlike
    PSS and USS it does not depend on how many other processes share a page, so that it does not
    change when another process is forked or killed. Pages of files, such as libraries, are not
    counted: the kernel can drop them at any time.
    """

    memory_kib: int
    descriptors: int
    threads: int


Readings = Mapping[Identity, ProcessReading]


@dataclass(frozen=True)
class Totals:
    """The resources of all processes of a server."""

    processes: int
    memory_kib: int
    descriptors: int
    threads: int


def read(pid: int) -> dict[Identity, ProcessReading]:
    """Return the readings of a process and of its descendants, without those that have ended."""
    found = {}
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess, OSError, KeyError):  # it has just ended
                found[process.pid, process.create_time()] = _read(process.pid)
    return found


def totals(readings: Readings) -> Totals:
    """Return the sums over all processes."""
    each = readings.values()
    return Totals(
        processes=len(each),
        memory_kib=sum(one.memory_kib for one in each),
        descriptors=sum(one.descriptors for one in each),
        threads=sum(one.threads for one in each),
    )


def _read(pid: int) -> ProcessReading:
    """Raise OSError or KeyError for a process that has ended, also if it is a zombie."""
    mapped = _fields(Path(f"/proc/{pid}/smaps_rollup"))  # exact, unlike RssAnon of status
    status = _fields(Path(f"/proc/{pid}/status"))
    return ProcessReading(
        memory_kib=mapped["Anonymous"] + mapped["Swap"] + status["RssShmem"],
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - the number of names
        threads=status["Threads"],
    )


def _fields(path: Path) -> dict[str, int]:
    """Return the fields of a file of /proc that are whole numbers, by name; sizes are in kB."""
    lines = (line.split() for line in path.read_text(errors="replace").splitlines())
    return {
        words[0].removesuffix(":"): int(words[1])
        for words in lines
        if len(words) > 1 and words[1].isdigit()
    }
