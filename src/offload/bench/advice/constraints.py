"""Errors for constraints that cannot be met: response time and memory."""

from __future__ import annotations

from offload.errors import RunError
from offload.units import seconds


def check_response_time(p99_s: float | None, alone_s: float | None, what: str, call: str) -> None:
    """Raise RunError if a `call` alone takes longer than the required p99.

    No candidate can meet such a p99. `what` is the kind of the candidates: strategy or server.
    """
    if p99_s is None or alone_s is None or alone_s <= p99_s:
        return
    problem = f"no {what} reaches a p99 of {seconds(p99_s)}: {call} takes {seconds(alone_s)}"
    raise RunError(problem, "make it faster, or increase p99=")


def too_little_memory(memory_mib: float, what: str, least: str, least_mib: float) -> RunError:
    """Return the error for a memory limit that even the smallest candidate, `least`, exceeds."""
    problem = f"no {what} fits into {memory_mib:.0f} MiB: {least} needs {least_mib:.0f} MiB"
    return RunError(problem, "increase memory=")
