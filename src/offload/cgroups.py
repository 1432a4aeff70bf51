"""The control groups of this process, of version 1 and 2, and the memory that they leave to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
MIB = 1 << 20


def groups(controller: str, own: Path, root: Path) -> Iterator[Path]:
    """Yield the folders of this process's groups that may have a controller, and their parents.

    A container may see its own group as the root.
    Source: https://docs.kernel.org/admin-guide/cgroup-v2.html
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue  # another controller of version 1
        base = root / controller if controllers else root
        folder = base / path.lstrip("/")
        for group in (folder, *folder.parents):
            if not group.is_relative_to(base):
                break
            yield group


def limits(
    controller: str, *names: str, own: Path | None = None, root: Path | None = None
) -> list[int]:
    """Return the numbers in the files of all groups of this process; "max" is no number."""
    found = []
    for group in groups(controller, own or OWN, root or ROOT):
        for name in names:
            try:
                found.append(int((group / name).read_text()))
            except (OSError, ValueError):
                continue
    return found


def memory_mib() -> float:
    """Return how much memory this process and its children may use: the machine's, or a limit."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *limits("memory", "memory.max", "memory.limit_in_bytes")]) / MIB
