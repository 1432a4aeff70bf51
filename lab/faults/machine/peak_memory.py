"""The peak memory of processes, from Linux's /proc."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offload.errors import MachineError

RESET = "5"  # what /proc/PID/clear_refs accepts to set the peak to the current value: man 5 proc


class PeakMemory:
    """The growth of the peak resident memory of processes, since this object was created."""

    def __init__(self, pids: Sequence[int]) -> None:
        try:
            for pid in pids:
                Path(f"/proc/{pid}/clear_refs").write_text(RESET)
        except OSError as error:
            what = f"the peak of memory cannot be reset ({error.strerror})"
            raise MachineError(what, "use Linux with /proc, as the user of the server") from error
        self._before = {pid: _kib(pid, "VmRSS") for pid in pids}

    def growth_mib(self) -> float | None:
        """Return the largest growth of a process in MiB; None if one of them ended."""
        try:
            grown = [_kib(pid, "VmHWM") - before for pid, before in self._before.items()]
        except (OSError, ValueError):
            return None
        return max(grown) / 1024


def _kib(pid: int, name: str) -> int:
    """Return a value of /proc/PID/status; ValueError if there is none, as for a zombie."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise ValueError(f"/proc/{pid}/status has no {name}")
