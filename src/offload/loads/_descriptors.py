"""The limit of open files, which a load tool needs for the connections of its users."""

from __future__ import annotations

import resource

from offload.errors import MachineError

SPARE = 64  # file descriptors of a load tool besides its users' connections


def raise_limit(users: int) -> None:
    """Raise the soft limit, which tools inherit; raise MachineError if the hard one is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = users + SPARE
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise MachineError(f"users={users} need more than {hard} descriptors", "raise ulimit -n")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
