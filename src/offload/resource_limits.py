"""What this process may use of the machine: CPUs, memory, threads, files and disk space."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from offload.errors import MachineError


def cpu_count() -> int:
    """Return the number of CPUs that can be used concurrently, at least 1.

    A quota of 1.5 CPUs (`docker run --cpus=1.5`) counts as 2.
    """
    return max(1, math.ceil(cpu_capacity()))


def cpu_capacity() -> float:
    """Return how many CPUs can be used on average: those of the affinity, at most the quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = own_cpu_quota()
    return float(affinity or 1) if quota is None else min(float(affinity or 1), quota)


def cpu_numbers() -> tuple[int, ...]:
    """Return the numbers of the CPUs that this process may use; none if they are unknown."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


@contextlib.contextmanager
def limited_to_cpus(cpus: Sequence[int]) -> Iterator[None]:
    """Limit this thread, and the processes that it starts, to some CPUs; no CPUs: no limit."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def restrict_to_cpus(count: int | None) -> None:
    """Restrict this process and its future children to a number of CPUs; None: no restriction."""
    if count is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def own_cpu_quota() -> float | None:
    """Return the smallest CPU quota of this process, in CPUs; None without one."""
    return cpu_quota(OWN, ROOT)


def cpu_quota(own: Path, root: Path) -> float | None:
    """Return the smallest quota, in CPUs, of this process's groups and their parents, or None.

    The quota is in the file cpu.max (control groups version 2) or cpu.cfs_quota_us (version 1).
    """
    found = map(_group_quota, control_groups("cpu", own, root))
    return min((quota for quota in found if quota is not None), default=None)


def _group_quota(group: Path) -> float | None:
    """Return the quota of one group."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
    except (OSError, ValueError):
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


@dataclass(frozen=True)
class QuotaCounts:
    """The counters of a control group that has a CPU quota, in CPUs, since it was created.

    `periods` are those in which it ran, `throttled` those in which its threads were stopped
    because they had used up the quota. `stopped_s` is for how long, as a sum over all CPUs.
    """

    quota: float
    periods: int
    throttled: int
    stopped_s: float


def quota_counts(pid: int) -> dict[str, QuotaCounts]:
    """Return the counters of all groups of a process with a CPU quota, and their parents.

    Each group counts only what its own quota stopped, so a group that is stopped by the quota of a
    parent shows nothing. The keys are the folders. Empty if the process has ended.
    """
    found = {}
    for group in control_groups("cpu", PROC / str(pid) / "cgroup", ROOT):
        quota = _group_quota(group)
        counts = None if quota is None else _quota_counts(group, quota)
        if counts is not None:
            found[str(group)] = counts
    return found


def _quota_counts(group: Path, quota: float) -> QuotaCounts | None:
    try:
        lines = (group / "cpu.stat").read_text().splitlines()
        counts = {name: int(number) for name, number in (line.split() for line in lines)}
        stopped_s = (
            counts["throttled_usec"] / 1e6  # of version 2
            if "throttled_usec" in counts
            else counts["throttled_time"] / 1e9
        )
        return QuotaCounts(quota, counts["nr_periods"], counts["nr_throttled"], stopped_s)
    except (OSError, ValueError, KeyError):
        return None


def memory_mib() -> float:
    """Return how much memory this process and its children may use: the machine's, or a limit."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *cgroup_limits("memory", "memory.max", "memory.limit_in_bytes")]) / MIB


# Control groups, of version 1 and 2
ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")
OWN = PROC / "self" / "cgroup"
MIB = 1 << 20


def control_groups(controller: str, own: Path, root: Path) -> Iterator[Path]:
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


def cgroup_limits(
    controller: str, *names: str, own: Path | None = None, root: Path | None = None
) -> list[int]:
    """Return the numbers in the files of all groups of this process; "max" is no number."""
    found = []
    for group in control_groups(controller, own or OWN, root or ROOT):
        for name in names:
            try:
                found.append(int((group / name).read_text()))
            except (OSError, ValueError):
                continue
    return found


# Which limit of a process an error means
MEMORY = {"RLIMIT_AS": "ulimit -v", "RLIMIT_DATA": "ulimit -d"}
PROCESSES = {"RLIMIT_NPROC": "ulimit -u"}
FILES = {"RLIMIT_NOFILE": "ulimit -n"}
FULL = (errno.ENOSPC, errno.EDQUOT)
NO_FOLDER = "No usable temporary directory"  # all that Python says, with the code of a missing file
NO_THREAD = "can't start new thread"  # all that Python says, also if the stack finds no memory


def machine_error(what: str, error: BaseException, other: str = "") -> MachineError | None:
    """Return the error for `what` failed at a limit, with the limits to raise.

    `other` is another remedy. Return None if the error means no limit, or none is set. A full disk
    is a limit, too.
    """
    if _is_full(error):
        return MachineError(what, "free disk space, or set TMPDIR to a folder with free space")
    if not (found := [*_exhausted(error)]):
        return None
    remedy = f"raise {' or '.join(found)}{f', or {other}' if other else ''}"
    return MachineError(what, remedy)


def or_raise_memory(remedy: str) -> str:
    """Return a remedy for a failed function, with the limits of memory that it may have met."""
    found = [*_set_limits(MEMORY)]
    return f"{remedy}, or raise {' or '.join(found)}" if found else remedy


def _is_full(error: BaseException) -> bool:
    """Whether an error means that there is no place for a file."""
    return isinstance(error, OSError) and (error.errno in FULL or NO_FOLDER in str(error))


def _exhausted(error: BaseException | None) -> Iterator[str]:
    """Yield the limits that an error or its causes mean, as they are shown."""
    while error is not None:
        code = error.errno if isinstance(error, OSError) else None
        is_full = isinstance(error, MemoryError) or code == errno.ENOMEM
        is_thread = isinstance(error, RuntimeError) and NO_THREAD in str(error)
        if is_full or is_thread:
            yield from _set_limits(MEMORY)
        if is_thread or code == errno.EAGAIN:
            yield from _set_limits(PROCESSES)
            yield from _process_limit()
        if code == errno.EMFILE:
            yield from _set_limits(FILES)
        error = error.__cause__ or error.__context__


def _set_limits(names: dict[str, str]) -> Iterator[str]:
    for name, command in names.items():
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY:
            now = f"{soft >> 20} MiB" if names is MEMORY else str(soft)
            yield f"{name} ({now} now, {command})"


def _process_limit() -> Iterator[str]:
    if found := cgroup_limits("pids", "pids.max"):
        yield f"pids.max of the cgroup ({min(found)} now)"


SPARE_DESCRIPTORS = 64  # file descriptors of a load tool besides its users' connections


def raise_open_files_limit(users: int) -> None:
    """Raise the soft limit, which tools inherit; raise MachineError if the hard one is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = users + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise MachineError(f"users={users} need more than {hard} descriptors", "raise ulimit -n")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
