"""The servers that can serve an application, and their sizes that are worth measuring."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.bench.planning import blocks
from offload.errors import MachineError
from offload.registry import catalog, requirements
from offload.registry.entries import Entry
from offload.suites import Case

# The usual choice of each kind first; servers that are not named here follow.
ORDER = (
    "uvicorn_httptools",
    "gunicorn_gthread",
    "uvicorn_workers",
    "granian_wsgi",
    "granian_asgi",
    "waitress",
    "gunicorn_uvicorn",
    "gunicorn_sync",
    "gunicorn_asgi",
    "gunicorn_gevent",
    "hypercorn",
    "uvicorn_h11",
)
MOST_SERVERS = blocks.MOST
MOST_PROCESSES = 16  # of one server
MOST_THREADS = 64  # of one process
TITLES = {"asgi": "ASGI", "wsgi": "WSGI"}


@dataclass(frozen=True, order=True)
class Size:
    """The number of server processes, and of threads (or greenlets) in each.

    `threads` is None for a server without a number of threads, such as an event loop.
    """

    processes: int = 1
    threads: int | None = None

    @property
    def total(self) -> int:
        """The number of workers: processes x threads."""
        return self.processes * (self.threads or 1)


def servers(kinds: Sequence[str], python: str | None) -> list[str]:
    """Return the servers that can serve an application of `kinds` here, the usual ones first.

    With another interpreter, `python`, missing servers are installed at their start. Raise
    MachineError if there is no server.
    """
    entries = [e for e in catalog.servers().values() if e.serves in kinds]
    found = [e for e in entries if python is not None or not _missing(e)]
    if not found:
        lacking = _missing(min(entries, key=lambda e: _rank(e.name)))
        what = f"no server here can serve {' or '.join(TITLES[kind] for kind in kinds)}"
        raise MachineError(f"{what}: {' and '.join(lacking)} missing", requirements.remedy(lacking))
    return sorted((e.name for e in found), key=_rank)


def size_of(case: Case) -> Size:
    """Return the size of a case, with the defaults of its server."""
    server = catalog.find_server(case.server)
    values = {**server.settings, **case.settings}
    if server.workers_are == "processes":
        return Size(int(str(values["workers"])))
    threads = None if server.workers_are is None else int(str(values["workers"]))
    return Size(int(str(values.get("processes", 1))), threads)


def with_size(case: Case, server: str, size: Size) -> Case:
    """Return a case served by `server` with a size; sizes that cannot be set are ignored."""
    entry = catalog.find_server(server)
    settings: dict[str, object] = {}
    if entry.workers_are == "processes":
        settings["workers"] = size.processes
    elif entry.workers_are is not None and size.threads is not None:
        settings["workers"] = size.threads
    if "processes" in entry.settings:
        settings["processes"] = size.processes
    return replace(case, server=server, settings=settings)


def probe_size(server: str, users: int) -> Size:
    """Return the size of the probe: one process, with a thread for each user."""
    return Size(1, _threads(catalog.find_server(server), min(users, MOST_THREADS)))


def first_sizes(
    found: Sequence[str], cores: int, saturating: int, most: int = MOST_PROCESSES
) -> list[tuple[str, Size]]:
    """Return one size of each server: a process for each core, and `saturating` threads in total.

    `saturating` is the number of concurrent requests that use all cores. If each process of a
    server handles one request at a time, it has as many processes instead. Each size has at most
    `most` processes. The list has at most MOST_SERVERS sizes.
    """
    sizes = []
    for name in found:
        entry = catalog.find_server(name)
        processes = cores if has_processes(entry) else 1
        if entry.workers_are == "processes":
            processes = min(MOST_PROCESSES, max(cores, saturating))
        processes = min(processes, most)
        sizes.append((name, Size(processes, _threads(entry, math.ceil(saturating / processes)))))
    return sizes[:MOST_SERVERS]


def sizes_around(server: str, best: Size, saturating: int, needs_processes: bool) -> list[Size]:
    """Return other sizes of a server: one process, and half and twice the processes or threads.

    With `needs_processes`, each process has a limit of its own, such as one request at a time: more
    processes than cores, up to `saturating`, may increase the rate. The nearest size is first.
    """
    entry = catalog.find_server(server)
    processes = {best.processes}
    if has_processes(entry):
        processes |= {1, max(1, best.processes // 2), 2 * best.processes}
        if needs_processes:
            processes |= {4 * best.processes, saturating}
    threads: set[int | None] = {best.threads}
    if best.threads is not None and entry.workers_are == "threads":
        threads |= {max(1, best.threads // 2), 2 * best.threads}
    found = {
        size
        for size in itertools.starmap(Size, itertools.product(processes, threads))
        if size.processes <= MOST_PROCESSES and (size.threads or 1) <= MOST_THREADS
        # Change the processes or the threads, not both.
        if size.processes == best.processes or size.threads == best.threads
    }
    if best.threads is not None and best.processes > 1 and best.total <= MOST_THREADS:
        found.add(Size(1, best.total))
    return sorted(found - {best}, key=lambda size: (_distance(size, best), -size.total))


def _distance(size: Size, best: Size) -> float:
    """Return the distance of a size from another one: how often the workers double or halve."""
    return abs(math.log2(size.total / best.total))


def larger(server: str, size: Size) -> Size | None:
    """Return the next size: twice the threads, or else twice the processes; None at the limit."""
    entry = catalog.find_server(server)
    if size.threads is not None and entry.workers_are == "threads":
        return Size(size.processes, 2 * size.threads) if 2 * size.threads <= MOST_THREADS else None
    if has_processes(entry) and 2 * size.processes <= MOST_PROCESSES:
        return Size(2 * size.processes, size.threads)
    return None


def has_processes(entry: Entry) -> bool:
    """Whether the number of a server's processes can be set."""
    return "processes" in entry.settings or entry.workers_are == "processes"


def preference(server: str, size: Size) -> tuple[int, int, int]:
    """Return a sort key for equally fast choices: fewer processes, fewer threads, usual server."""
    return size.processes, size.threads or 1, _rank(server)


def _threads(entry: Entry, count: int) -> int | None:
    if entry.workers_are == "greenlets":
        return int(str(entry.settings["workers"]))  # cheap, and needed by each idle connection
    return None if entry.workers_are != "threads" else min(MOST_THREADS, max(1, count))


def _missing(entry: Entry) -> list[str]:
    if entry.needs_python > sys.version_info[:2]:
        return ["a newer Python"]
    return [name for name in entry.needs if importlib.util.find_spec(name) is None]


def _rank(server: str) -> int:
    return ORDER.index(server) if server in ORDER else len(ORDER)
