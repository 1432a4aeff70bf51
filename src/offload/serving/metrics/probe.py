"""What a server knows of itself: identity, process tree and memory. Standard library only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from offload.serving.metrics import gil_state

facts: dict[str, object] = {}
answered = {"completed": 0, "failed": 0}


def identity() -> dict[str, object]:
    """Name the interpreter that serves, its build, and what tells this process from any other.

    `started` is in clock ticks since boot: with the pid it names one process for ever.
    """
    return {
        "pid": os.getpid(),
        "started": _started(),
        **gil_state.interpreter(),
        "executable": sys.executable,
        "path": os.environ.get("TASK_PATH"),
    }


def note_gil(state: str | None) -> None:
    """Have the facts say that the GIL is on as soon as the server or one worker has it on.

    `state` is what `_gil_state.now` gave there: the module that turned it on is kept.
    """
    facts["gil_enabled"] = bool(facts.get("gil_enabled")) or state is not None
    if state:
        facts["gil_enabled_by"] = state


def note_workers(told: Iterable[Mapping[str, object]]) -> None:
    """Keep what workers said of their interpreters, which are one unless something is wrong."""
    found: list[Mapping[str, object]] = []
    for said in told:
        if said not in found:
            found.append(said)
    facts["worker_interpreters"] = found


def endings() -> dict[str, object]:
    """Name what is known only at the end: the GIL's state, and how many answers this process gave.

    Of a server whose answers another's processes give, that is not known.
    """
    note_gil(gil_state.now())
    given = {} if facts.get("foreign") else answered
    return {**given, **{key: facts.get(key) for key in ("gil_enabled", "gil_enabled_by")}}


def resources() -> dict[str, object]:
    """List this process and all below it, with their memory in MiB; None where it is not known.

    PSS counts a page shared by n processes as 1/n in each, so that the sum over the tree is the
    memory in use (Linux, /proc/PID/smaps_rollup).
    """
    processes = [_process(pid) for pid in _tree(os.getpid())]
    known = [p["pss_mib"] for p in processes]
    pss = None if None in known else round(sum(float(str(value)) for value in known), 2)
    return {"facts": facts, "memory_pss_mib": pss, "processes": processes}


def _started() -> int | None:
    try:
        return int(_stat(Path("/proc/self/stat"))[22 - 3])
    except OSError:  # no Linux
        return None


def _stat(path: Path) -> list[bytes]:
    """Read the fields from the third on: the second is a name, of blanks or no UTF-8 at will."""
    return path.read_bytes().rpartition(b")")[2].split()


def _process(pid: int) -> dict[str, object]:
    memory = _memory(pid)
    return {"pid": pid, **{f"{key.lower()}_mib": memory.get(key) for key in ("Pss", "Rss")}}


def _memory(pid: int) -> dict[str, float]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # no Linux, or the process ended since it was listed
        return {}
    pairs = (line.split() for line in lines)
    return {words[0].rstrip(":"): int(words[1]) / 1024 for words in pairs}


def _tree(root: int) -> list[int]:
    """List a process and its descendants, parents first; only the process where /proc is absent."""
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
