"""No work: the overhead of a strategy itself."""

from __future__ import annotations


def noop_sync() -> bytes:
    """Return at once: measures the strategy's own overhead."""
    return b"ok"
