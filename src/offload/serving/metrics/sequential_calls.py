"""Calls of a task one after the other in one thread, and what they took of its time."""

from __future__ import annotations

from pathlib import Path
from threading import get_native_id
from time import monotonic, thread_time

from offload import tasks

Took = tuple[int, float, float, float, int]  # calls, then in s: wall, CPU, queued; switches


def calls(task: str, seconds: float) -> Took:
    """Call a task for `seconds`, at least twice; switches are of context, forced ones too."""
    done, cpu, (queued, switches) = 0, thread_time(), _scheduled()
    began = now = monotonic()
    while done < 2 or now - began < seconds:
        tasks.call(task)
        done += 1
        now = monotonic()
    later, more = _scheduled()
    return done, now - began, thread_time() - cpu, later - queued, more - switches


def _scheduled() -> tuple[float, int]:
    """Give what this thread waited for a CPU, in s, and its context switches (Linux; else 0)."""
    folder = Path(f"/proc/self/task/{get_native_id()}")
    try:
        queued = int((folder / "schedstat").read_bytes().split()[1]) / 1e9
        lines = (folder / "status").read_text().splitlines()
    except OSError:
        return 0.0, 0
    return queued, sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
