"""Which limit of a process an error means: of memory, threads, processes or open files."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator

from offload import cgroups
from offload.errors import MachineError

MEMORY = {"RLIMIT_AS": "ulimit -v", "RLIMIT_DATA": "ulimit -d"}
PROCESSES = {"RLIMIT_NPROC": "ulimit -u"}
FILES = {"RLIMIT_NOFILE": "ulimit -n"}
NO_THREAD = "can't start new thread"  # all that Python says, also if the stack finds no memory


def machine_error(what: str, error: BaseException, other: str = "") -> MachineError | None:
    """Return the error for `what` failed at a limit, with the limits to raise.

    `other` is another remedy. Return None if the error means no limit, or none is set.
    """
    if not (found := [*_exhausted(error)]):
        return None
    remedy = f"raise {' or '.join(found)}{f', or {other}' if other else ''}"
    return MachineError(what, remedy)


def or_raise_memory(remedy: str) -> str:
    """Return a remedy for a failed function, with the limits of memory that it may have met."""
    found = [*_of(MEMORY)]
    return f"{remedy}, or raise {' or '.join(found)}" if found else remedy


def _exhausted(error: BaseException | None) -> Iterator[str]:
    """Yield the limits that an error or its causes mean, as they are shown."""
    while error is not None:
        code = error.errno if isinstance(error, OSError) else None
        is_full = isinstance(error, MemoryError) or code == errno.ENOMEM
        is_thread = isinstance(error, RuntimeError) and NO_THREAD in str(error)
        if is_full or is_thread:
            yield from _of(MEMORY)
        if is_thread or code == errno.EAGAIN:
            yield from _of(PROCESSES)
            yield from _of_cgroup()
        if code == errno.EMFILE:
            yield from _of(FILES)
        error = error.__cause__ or error.__context__


def _of(names: dict[str, str]) -> Iterator[str]:
    for name, command in names.items():
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY:
            now = f"{soft >> 20} MiB" if names is MEMORY else str(soft)
            yield f"{name} ({now} now, {command})"


def _of_cgroup() -> Iterator[str]:
    if found := cgroups.limits("pids", "pids.max"):
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
