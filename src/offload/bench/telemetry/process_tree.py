"""The tree of a process: itself, all below it, and orphans of its group that the bench adopted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from offload.errors import StartError

MIB = 1024 * 1024


class Tree:
    """The processes under a root, as they were at the last `refresh`.

    Raises StartError when the root has ended already.
    """

    def __init__(self, pid: int) -> None:
        try:
            self.root = psutil.Process(pid)
        except psutil.NoSuchProcess:
            raise StartError(f"the server (pid {pid}) ended before it was loaded") from None
        self.members: list[psutil.Process] = [self.root]
        self.refresh()

    def refresh(self) -> None:
        """List the members anew, which costs some 5 ms."""
        below: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            below = self.root.children(recursive=True)
        adopted = [child for child in psutil.Process().children() if self._is_of_group(child)]
        self.members = [self.root, *{child.pid: child for child in (*below, *adopted)}.values()]

    def used(self) -> dict[str, float | None]:
        """Give what was used up so far, each growing only.

        `cpu_s` is user and system time with that of children that ended and were waited for;
        `queued_s` the time that threads which still live waited for a CPU (Linux schedstat).
        """
        return {
            "cpu_s": self._each(lambda p: sum(p.cpu_times()[:4])),
            "switches_voluntary": self._each(lambda p: p.num_ctx_switches().voluntary),
            "switches_involuntary": self._each(lambda p: p.num_ctx_switches().involuntary),
            "queued_s": self._each(_queued_s),
        }

    def held(self) -> dict[str, float | None]:
        """Count the processes, threads and descriptors that are there now."""
        return {
            "processes": float(len(self.members)),
            "threads": self._each(lambda p: p.num_threads()),
            "fds": self._each(lambda p: p.num_fds()),
        }

    def memory(self) -> dict[str, float | None]:
        """Sum the memory in MiB; a page that n processes share counts 1/n in each one's PSS."""
        sizes = [size for p in self.members if (size := _memory(p)) is not None]
        return {
            f"memory_{kind}_mib": _mib(getattr(size, kind, None) for size in sizes)
            for kind in ("pss", "uss", "rss")
        }

    def _each(self, ask: Callable[[psutil.Process], float | None]) -> float | None:
        """Sum one figure over the members that live; None when one does not tell."""
        total = 0.0
        for process in self.members:
            try:
                value = ask(process)
            except psutil.NoSuchProcess:  # ended, and its parent has what it used
                continue
            except (psutil.Error, AttributeError):  # not ours, or not told by this system
                return None
            if value is None:
                return None
            total += value
        return total

    def _is_of_group(self, child: psutil.Process) -> bool:
        try:
            return child.pid != self.root.pid and os.getpgid(child.pid) == self.root.pid
        except ProcessLookupError:
            return False


def _queued_s(process: psutil.Process) -> float | None:
    found = [_second_word(path) for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat")]
    return sum(found) / 1e9 if found else None


def _second_word(path: Path) -> int:
    try:
        return int(path.read_bytes().split()[1])
    except (OSError, IndexError):  # the thread ended
        return 0


def _memory(process: psutil.Process) -> object | None:
    try:
        return process.memory_full_info()
    except psutil.Error:
        return None


def _mib(sizes: Iterable[int | None]) -> float | None:
    listed = list(sizes)
    known = [size for size in listed if size is not None]
    return round(sum(known) / MIB, 2) if known and len(known) == len(listed) else None
