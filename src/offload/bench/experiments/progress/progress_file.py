"""The progress of a run in a file of its folder, from which other processes show it live.

The run replaces the file when a phase begins, never while it measures, and removes it at its end.
"""

from __future__ import annotations

import functools
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from offload import files
from offload.engine import journal
from offload.engine.record import dataclass_from

FILE = "progress.json"
LONGEST = 100_000  # bytes of a file that is read: ours have about 300
CLOCK_S = 5.0  # the start of a process may differ by this much after the clock was set


@dataclass(frozen=True)
class RunProgress:
    """What a run does now.

    `step` names the round or long run, and `places` are its cases in the plan. In a `phase` in
    which one case is loaded, `loaded` is its place. `phase_ends` and `ends` are expected Unix
    times, `ends` that of the run, at least. `pid` and `started` identify the process that measures.
    """

    pid: int
    started: float
    step: str
    phase: str
    phase_ends: float
    ends: float
    places: tuple[int, ...] = ()
    loaded: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process that measures still runs."""
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.started) < CLOCK_S
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, ValueError, OverflowError):
            return False

    def phase_of(self, place: int) -> str:
        """Return the phase of a case; empty if it is not measured now."""
        if place not in self.places:
            return ""
        return self.phase if self.loaded in (None, place) else "wait"


@functools.cache
def own_start(pid: int) -> float:
    """Return the Unix time at which this process started; `pid` is its own, for after a fork."""
    return float(psutil.Process(pid).create_time())


def write(folder: Path, progress: RunProgress) -> None:
    """Replace the file atomically; a run goes on if that fails, for its records matter more."""
    with suppress(OSError):
        files.replace(folder / FILE, json.dumps(asdict(progress)).encode())


def remove(folder: Path) -> None:
    """Remove the file, because the run has ended."""
    with suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def read(folder: Path) -> RunProgress | None:
    """Read the file; None if there is none, or one that this version cannot read."""
    try:
        values = files.parse_json(files.read(folder / FILE, LONGEST))
        found: RunProgress = dataclass_from(RunProgress, values, "progress")
    except (OSError, ValueError):
        return None
    return found


def own(step: str, phase: str, phase_ends: float, ends: float) -> RunProgress:
    """Return the progress of a run that this process measures."""
    pid = os.getpid()
    return RunProgress(pid, own_start(pid), step, phase, phase_ends, ends)


def announce(folder: Path) -> None:
    """Write the progress of a run that this process starts now, unless another one measures it."""
    if (known := read(folder)) is not None and known.is_running:
        return
    now = time.time()
    write(folder, own("starting", "start", now, now))


def newest_running() -> Path | None:
    """Find the run that began its phase last, of those that are measured now; None without any."""
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        for path in journal.RESULTS.glob(f"*/{FILE}"):
            progress = read(path.parent)
            if progress is not None and progress.is_running:
                found.append((path.stat().st_mtime_ns, path.parent))
    return max(found)[1] if found else None
