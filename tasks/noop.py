"""No work: the overhead of a strategy itself."""

from __future__ import annotations

BYTE, MEGABYTE = b"0", 1_000_000


def noop_sync() -> bytes:
    """Return at once: measures the strategy's own overhead."""
    return b"ok"


def noop_megabyte_sync() -> bytes:
    """Return 1 MB: at once, to measure the strategy's overhead for a large response."""
    return BYTE * MEGABYTE  # new memory for each response, as in real handlers
