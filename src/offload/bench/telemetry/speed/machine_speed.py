"""The current speed of the machine: the durations of two fixed pieces of work."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

STEPS = 600_000  # of a loop in Python: about 30 ms
BLOCK = 8 << 20  # bytes, more than most caches of a core
COPIES = 30  # of a block: about 30 ms


@dataclass(frozen=True)
class MachineSpeed:
    """The duration of each piece of work in s: a loop in Python, and copies in memory."""

    python_s: float
    memory_s: float


_source, _target = bytes(BLOCK), bytearray(BLOCK)


def measure() -> MachineSpeed:
    """Measure both pieces of work; the caller must run nothing else at the same time."""
    start = perf_counter()
    total = 0
    for step in range(STEPS):
        total += step & 7
    middle = perf_counter()
    for _ in range(COPIES):
        _target[:] = _source
    return MachineSpeed(round(middle - start, 6), round(perf_counter() - middle, 6))
