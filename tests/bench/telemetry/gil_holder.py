"""Hold the GIL for a known share of the time.

Usage: python -m tests.bench.telemetry.gil_holder SHARE SECONDS HOW. It prints the facts of its GIL,
then the share it held by its own clock, and its window.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from time import monotonic

from offload.serving.metrics import own_gil

CYCLE = 0.02  # s
DATA = bytes(1 << 20)


def hold(seconds: float) -> float:
    """Compute in Python for `seconds`; return how long it took."""
    began = monotonic()
    while monotonic() - began < seconds:
        pass
    return monotonic() - began


def release(seconds: float, how: str) -> None:
    """Release the GIL for `seconds`, asleep or in C."""
    if how == "sleep":
        time.sleep(seconds)
        return
    until = monotonic() + seconds
    while monotonic() < until:
        hashlib.sha256(DATA)


def main(share: float, seconds: float, how: str) -> None:
    """Alternate for `seconds`, and print the share that was held."""
    print(json.dumps(own_gil.address_facts()), flush=True)
    sys.stdin.readline()
    began, held = monotonic(), 0.0
    while monotonic() - began < seconds:
        held += hold(share * CYCLE)
        release((1 - share) * CYCLE, how)
    ended = monotonic()
    window = {"began": began, "ended": ended}
    print(
        json.dumps({"share": held / (ended - began), **window, "gil": own_gil.enabled()}),
        flush=True,
    )
    sys.stdin.readline()  # to live until the last sample


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
