"""Sequential calls of a task in one thread, and their times."""

from __future__ import annotations

from pathlib import Path
from threading import get_native_id
from time import monotonic, thread_time

from offload import tasks

CallTimes = tuple[int, float, float, float, int]  # calls, then in s: wall, CPU, queued; switches


def calls(task: str, seconds: float) -> CallTimes:
    """Call a task for `seconds`, at least twice; count voluntary and forced context switches."""
    done, cpu, (queued, switches) = 0, thread_time(), scheduling()
    started = now = monotonic()
    while done < 2 or now - started < seconds:
        tasks.call(task)
        done += 1
        now = monotonic()
    later, more = scheduling()
    return done, now - started, thread_time() - cpu, later - queued, more - switches


def scheduling() -> tuple[float, int]:
    """Return this thread's wait for a CPU in s, and its context switches (Linux; else 0)."""
    folder = Path(f"/proc/self/task/{get_native_id()}")
    try:
        queued = int((folder / "schedstat").read_bytes().split()[1]) / 1e9
        lines = (folder / "status").read_text().splitlines()
    except OSError:
        return 0.0, 0
    return queued, sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
