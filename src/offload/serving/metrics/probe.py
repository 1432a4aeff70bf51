"""The report of a server about itself: identity, counts, processes, memory. Standard library only.

The counts of each process are in memory that all processes of the server share. A process writes
only its own row, so the rows need no locks. A process that replaces one that has ended continues
its row: counts since the start never decrease. Only on Linux; elsewhere, each process knows only
its own counts.
"""

from __future__ import annotations

import fcntl
import gc
import mmap
import operator
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path

from offload.serving.metrics import own_gil, tracer

EVENTS = ("completed", "failed", "refused", "dropped", "timed_out")
NOW = ("stuck", "in_flight")  # current numbers; those of a process that has ended do not count
NAMES = (*EVENTS, *NOW)
COLUMNS = 1 + len(NAMES)  # the pid is the first one
ROWS = 512  # processes; gunicorn may have 256 workers
SIZE = 8 * COLUMNS * ROWS
VARIABLE = "SERVER_COUNTS"  # the path of the memory, for processes that are not forked
_table: memoryview | None = None
_joined: int | None = None  # the pid that has a row: a forked child needs its own


class Counts:
    """The counts of this process, by name."""

    def __init__(self) -> None:
        self._row = memoryview(bytearray(8 * COLUMNS)).cast("q")

    def __getitem__(self, name: str) -> int:
        return self._row[_INDEX[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._row[_INDEX[name]] = value

    def move_to(self, row: memoryview) -> None:
        """Count in this row from now on."""
        self._row = row


_INDEX = {name: 1 + index for index, name in enumerate(NAMES)}
_counts: list[Counts] = []  # of this process


def create_counts() -> Counts:
    """Return counts of this process; `join` moves them into the shared memory."""
    _counts.append(Counts())
    return _counts[-1]


def share_counts() -> dict[str, object] | None:
    """Create the memory for the processes of this server; return its layout, None without one.

    Another process of this user can read it: see engine/processes.py.
    """
    if not hasattr(os, "memfd_create"):
        return None
    try:
        descriptor = os.memfd_create("offload-counts")  # open until this process ends
        os.truncate(descriptor, SIZE)
    except OSError:  # a sandbox may forbid it
        return None
    os.environ[VARIABLE] = path = f"/proc/{os.getpid()}/fd/{descriptor}"
    _map(descriptor)
    return {"path": path, "columns": COLUMNS, "responses": [_INDEX[name] for name in EVENTS]}


def join_counts() -> None:
    """Count in a row of the shared memory from now on, if the server has one."""
    global _joined
    path = os.environ.get(VARIABLE)
    if path is None or _joined == os.getpid():
        return
    with suppress(OSError), _opened(path) as descriptor:
        if _table is None:
            _map(descriptor)
        assert _table is not None
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            row = next((each for each in _rows(_table) if not _is_alive(each[0])), None)
            if row is not None:  # else this process counts alone
                row[0] = _joined = os.getpid()
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # the mapping may keep the file open
        if row is not None:
            for name in NOW:
                row[_INDEX[name]] = 0
            for counts in _counts:
                counts.move_to(row)


def total_counts() -> dict[str, int] | None:
    """Return the sums over all processes; None if no process shares its counts."""
    rows = [] if _table is None else [*_used(_table)]
    if not rows:
        return None
    alive = [row for row in rows if _is_alive(row[0])]
    return {
        name: sum(row[_INDEX[name]] for row in (alive if name in NOW else rows)) for name in NAMES
    }


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _map(descriptor: int) -> None:
    global _table
    _table = memoryview(mmap.mmap(descriptor, SIZE)).cast("q")


def _rows(table: memoryview) -> Iterator[memoryview]:
    return (table[at : at + COLUMNS] for at in range(0, ROWS * COLUMNS, COLUMNS))


def _used(table: memoryview) -> Iterator[memoryview]:
    """Return the rows of processes, which are the first ones."""
    return takewhile(operator.itemgetter(0), _rows(table))


def _is_alive(pid: int) -> bool:
    """Whether a process of this server lives; 0 is none."""
    try:
        os.kill(pid, 0)
    except OSError:  # ended; or the pid is now that of another user's process
        return False
    return pid > 0


# The report
facts: dict[str, object] = {}
_own = create_counts()  # of this process
_protection: Counts | None = None
PROTECTION = ("refused", "dropped", "timed_out", "stuck")
_counting = threading.Lock()  # without a GIL, threads would lose counts


def identity() -> dict[str, object]:
    """Return the interpreter, its build, and a unique identification of this process.

    `started` is in clock ticks since boot: together with the pid it identifies one process.
    """
    return {
        "pid": os.getpid(),
        "started": _started(),
        **own_gil.interpreter(),
        "executable": sys.executable,
        "path": os.environ.get("TASK_PATH"),
    }


def note_gil(state: str | None) -> None:
    """Record in the facts whether the GIL is enabled in the server or in any worker.

    `state` is the result of `own_gil.enabled_by()` there: the module that enabled the GIL.
    """
    facts["gil_enabled"] = bool(facts.get("gil_enabled")) or state is not None
    if state:
        facts["gil_enabled_by"] = state


def count_response(outcome: str) -> None:
    """Count a response to a task: "completed" or "failed". Any thread may call this."""
    with _counting:
        _own[outcome] += 1


def note_workers(interpreters: Iterable[Mapping[str, object]]) -> None:
    """Record the distinct interpreters of the workers: normally exactly one."""
    found: list[Mapping[str, object]] = []
    for interpreter in interpreters:
        if interpreter not in found:
            found.append(interpreter)
    facts["worker_interpreters"] = found


def final_facts() -> dict[str, object]:
    """Return the facts known only at the end: the GIL's state and the number of responses.

    The number is unknown if processes that do not share their counts respond.
    """
    note_gil(own_gil.enabled_by())
    return {
        **response_counts(),
        **{key: facts.get(key) for key in ("gil_enabled", "gil_enabled_by")},
    }


def resources() -> dict[str, object]:
    """List the server and its descendants, with their memory in MiB; None where unknown.

    A process forked from the server lists the same processes; any other process lists itself and
    its descendants. PSS counts a page shared by n processes as 1/n in each, so that the sum over
    the tree is the memory in use (Linux, /proc/PID/smaps_rollup). `responses` are the counts since
    the start; empty if they are unknown.
    """
    processes = [_process(pid) for pid in _tree(int(str(facts.get("pid", os.getpid()))))]
    known = [p["pss_mib"] for p in processes]
    pss = None if None in known else round(sum(float(str(value)) for value in known), 2)
    return {
        "facts": facts if _protection is None else {**facts, "protection": protection_counts()},
        "responses": response_counts(),
        "memory_pss_mib": pss,
        "processes": processes,
    }


def response_counts() -> dict[str, int]:
    """Return the numbers of responses to tasks of all processes; empty if they are unknown."""
    shared = total_counts()
    if facts.get("application") or (shared is None and facts.get("external_workers")):
        return {}
    return {name: (shared or _own)[name] for name in ("completed", "failed")}


def show_protection(counts: Counts) -> None:
    """Report these counts of the protection, of all processes."""
    global _protection
    _protection = counts


def protection_counts(names: Iterable[str] = PROTECTION) -> dict[str, int]:
    """Return counts of the protection, as sums over all processes."""
    found = total_counts() or _protection
    return {} if found is None else {name: found[name] for name in names}


def note_external_workers(who: str) -> None:
    """Record in the facts that `who` starts the processes which run the tasks."""
    why = f"{who}'s processes run the tasks"
    facts.update(external_workers=who, gil_address=None, gil_address_error=why)


def memory_of(pid: int) -> dict[str, float | None]:
    """Return a process's PSS, its unshared memory, and its shared one without files, in MiB."""
    memory = _memory(pid)
    private = [memory.get(key) for key in ("Private_Clean", "Private_Dirty")]
    known = [value for value in private if value is not None]
    return {
        "pss_mib": memory.get("Pss"),
        "private_mib": sum(known) if known else None,
        "shared_mib": memory.get("Shared_Dirty"),
    }


def _started() -> int | None:
    try:
        return int(_stat(Path("/proc/self/stat"))[22 - 3])
    except OSError:  # not Linux
        return None


def _stat(path: Path) -> list[bytes]:
    """Read the fields from the third on: the second, a name, may have blanks or invalid UTF-8."""
    return path.read_bytes().rpartition(b")")[2].split()


def _process(pid: int) -> dict[str, object]:
    memory = _memory(pid)
    return {"pid": pid, **{f"{key.lower()}_mib": memory.get(key) for key in ("Pss", "Rss")}}


def _memory(pid: int) -> dict[str, float]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # not Linux, or the process ended since it was listed
        return {}
    pairs = (line.split() for line in lines)
    return {words[0].rstrip(":"): int(words[1]) / 1024 for words in pairs}


def _tree(root: int) -> list[int]:
    """List a process and its descendants, parents first; without /proc only the process."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(_stat(stat)[4 - 3])
        except OSError:  # ended since the folder was listed
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    tree = [root]
    for pid in tree:
        tree.extend(children.get(pid, []))
    return tree


# Garbage, before memory is measured


def collect_on_request() -> None:
    """Run a full collection on SIGURG, which processes without a handler ignore.

    It also lets the process that started this server read its stacks, if it asks for that.

    A task that handles this signal replaces the handler; outside the main thread there is none.
    """
    with suppress(ValueError):
        signal.signal(signal.SIGURG, _handle)


def _handle(*_: object) -> None:
    gc.collect()
    tracer.update()
