"""Tasks that hold the GIL for a share of their time, and return the time held and in total."""

import time
from time import monotonic

STABLE = False
so_far = {"held": 0.0, "all": 0.0}


def _hold(seconds: float, share: float) -> str:
    began = monotonic()
    while monotonic() - began < seconds * share:
        pass
    so_far["held"] += monotonic() - began
    time.sleep(seconds * (1 - share))
    so_far["all"] += monotonic() - began
    return f"{so_far['held']} {so_far['all']}"


def half_of_1_ms() -> str:
    """Hold it for the half of 1 ms."""
    return _hold(0.001, 0.5)


def tenth_of_20_ms() -> str:
    """Hold it for a tenth of 20 ms."""
    return _hold(0.02, 0.1)


def most_of_300_ms() -> str:
    """Hold it for nine tenths of 0.3 s."""
    return _hold(0.3, 0.9)


def all_of_300_ms() -> str:
    """Hold it for 0.3 s, and answer when that began and ended."""
    began = monotonic()
    while monotonic() - began < 0.3:
        pass
    return f"{began} {monotonic()}"


def computes() -> None:
    """Do the same work each time, some 20 ms, all of it in Python."""
    total = 0
    for number in range(300_000):
        total += number


def computes_in_one_call() -> None:
    """Compute 100 to 300 ms in one call into C, which does not let the GIL go."""
    sum(range(12_000_000))
