"""Check that fab capacity finds the capacity of a server whose capacity is known.

Usage: python -m scripts.checks.capacity_knee [RUNS]

Four threads that sleep 50 ms serve 80 requests/s. With arrivals at equal intervals no request waits
below that rate; above it the queue grows until the target of 100 ms is missed. Each of RUNS runs
(default: 10, about 25 minutes) prints its result. The exit code is 1 unless nine tenths of the runs
are within 5 % of 80/s and take less than three minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from offload.bench.stats import student_t
from offload.cli import arguments
from offload.errors import RunError
from offload.units import percent
from scripts.script import ROOT, run

COMMAND = "capacity:3x4/sleep_short_sync,p99=100ms,format=json"
KNOWN = 80.0  # requests/s: 4 workers / 50 ms
NEAR, LONGEST_S, SHARE = 0.05, 180.0, 0.9
TIMEOUT_S = 600.0  # of one run


def main(words: list[str]) -> int:
    """Run the command, print each result, and return the exit code."""
    count = arguments.whole_number("RUNS", words[0], 1, 1000) if words else 10
    found = sum(_is_found(number) for number in range(1, count + 1))
    low, high = student_t.binomial_interval(found, count)
    print(f"found: {found} of {count} ({percent(low)} to {percent(high)})")
    return 0 if found >= SHARE * count else 1


def _is_found(number: int) -> bool:
    """Run the command once; return whether its capacity is right and in time."""
    began = time.monotonic()
    fab = Path(sys.executable).with_name("fab")
    try:
        done = subprocess.run(
            [fab, COMMAND], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        print(f"{number}: no result after {TIMEOUT_S:.0f} s", flush=True)
        return False
    taken_s = time.monotonic() - began
    if done.returncode not in (0, 5) or not done.stdout:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RunError(f"fab {COMMAND} ended with {done.returncode}: {last}")
    values = json.loads(done.stdout)
    capacity = values["capacity"]
    if capacity is None:
        print(f"{number}: unknown after {taken_s:.0f} s: {values['problem']}", flush=True)
        return False
    is_found = abs(capacity / KNOWN - 1) <= NEAR and taken_s < LONGEST_S
    interval = f"{values['capacity_low']:.1f} to {values['capacity_high']:.1f}"
    outcome = "ok" if is_found else "MISSED"
    error = percent(capacity / KNOWN - 1, 1, sign="+")
    print(
        f"{number}: {capacity:.1f}/s ({interval}), {error}, {taken_s:.0f} s: {outcome}", flush=True
    )
    return is_found


if __name__ == "__main__":
    run(main)
