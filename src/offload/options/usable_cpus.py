"""The number of CPUs to which a command restricts everything that it measures: cpus=."""

from __future__ import annotations

import os

from offload.errors import UsageError
from offload.options import arguments
from offload.units import percent


def parse(text: str) -> int | None:
    """Return the number of CPUs in the text of cpus=; None if it is empty. Raise UsageError."""
    if not text:
        return None
    if arguments.NUMBER.fullmatch(text) and "." in text:
        what = f"cpus={text} is a quota, and not a number of CPUs"
        share = percent(float(text)).replace(" ", "")
        by = f"systemd-run --user --scope -p CPUQuota={share}"
        fix = f"run the command by {by}, or in a container: docs/how_to/container.rst"
        raise UsageError(what, fix)
    return arguments.whole_number("cpus", text, 1, len(os.sched_getaffinity(0)))


def restrict(count: int | None) -> None:
    """Restrict this process and its future children to a number of CPUs; None: no restriction."""
    if count is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
