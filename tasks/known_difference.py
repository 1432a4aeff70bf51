"""Two tasks that differ by a known 20 %, to check the verdicts of comparisons."""

from __future__ import annotations

STEPS = 400_000  # of a loop in Python: about 20 ms
SLOWER = 1.2  # factor of the steps


def count_sync() -> bytes:
    """Count in Python: count in a loop in Python for some 20 ms, which holds the GIL."""
    return _count(STEPS)


def count_slower_sync() -> bytes:
    """Count 20 % more: count like count_sync in a loop that is 20 % longer."""
    return _count(int(SLOWER * STEPS))


def _count(steps: int) -> bytes:
    total = 0
    for step in range(steps):
        total += step & 7
    return b"counted\n" if total else b""
