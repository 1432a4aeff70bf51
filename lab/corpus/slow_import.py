"""Slow import: importing this module takes about 0.5 s of CPU time."""

from __future__ import annotations

STABLE = True
STEPS = 6_000_000

_table = sum(n * n % 7 for n in range(STEPS))


def small_work() -> str:
    """Compute for about 1 ms, in a module whose import takes 0.5 s."""
    return str(_table + sum(n % 3 for n in range(20_000)))
