"""The report of a server about itself: identity, processes, memory. Standard library only."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from offload.serving.metrics import gil_state, process_counts

facts: dict[str, object] = {}
_own = process_counts.create()  # of this process
_protection: process_counts.Counts | None = None
PROTECTION = ("refused", "dropped", "timed_out", "stuck")
_counting = threading.Lock()  # without a GIL, threads would lose counts


def identity() -> dict[str, object]:
    """Return the interpreter, its build, and a unique identification of this process.

    `started` is in clock ticks since boot: together with the pid it identifies one process.
    """
    return {
        "pid": os.getpid(),
        "started": _started(),
        **gil_state.interpreter(),
        "executable": sys.executable,
        "path": os.environ.get("TASK_PATH"),
    }


def note_gil(state: str | None) -> None:
    """Record in the facts whether the GIL is enabled in the server or in any worker.

    `state` is the result of `gil_state.now()` in that process: the module that enabled the GIL.
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
    note_gil(gil_state.now())
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
    shared = process_counts.totals()
    if facts.get("application") or (shared is None and facts.get("external_workers")):
        return {}
    return {name: (shared or _own)[name] for name in ("completed", "failed")}


def show_protection(counts: process_counts.Counts) -> None:
    """Report these counts of the protection, of all processes."""
    global _protection
    _protection = counts


def protection_counts(names: Iterable[str] = PROTECTION) -> dict[str, int]:
    """Return counts of the protection, as sums over all processes."""
    found = process_counts.totals() or _protection
    return {} if found is None else {name: found[name] for name in names}


def note_external_workers(who: str) -> None:
    """Record in the facts that `who` starts the processes which run the tasks."""
    why = f"{who}'s processes run the tasks"
    facts.update(external_workers=who, gil_address=None, gil_address_error=why)


def memory_of(pid: int) -> dict[str, float | None]:
    """Return a process's PSS and its unshared memory, in MiB (Linux)."""
    memory = _memory(pid)
    private = [memory.get(key) for key in ("Private_Clean", "Private_Dirty")]
    known = [value for value in private if value is not None]
    return {"pss_mib": memory.get("Pss"), "private_mib": sum(known) if known else None}


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
