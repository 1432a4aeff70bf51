"""No work: the overhead of a strategy itself."""

from __future__ import annotations

MEGABYTE = 1_000_000


def noop_sync() -> bytes:
    """Return at once: measures the strategy's own overhead."""
    return b"ok"


def noop_megabyte_sync() -> bytes:
    """Return 1 MB at once: measures the strategy's overhead for a large response."""
    return b"0" * MEGABYTE  # new memory for each response, as in real handlers
