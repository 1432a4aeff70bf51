"""Test whether protect=yes costs at most 3 % of the rate.

Usage: python -m lab protection_effect [TASK]

Two servers with 4 threads, without and with protection, are loaded in 3,600 pairs of slices, in
random order. Both are started again after every 60 pairs, because rates differ between starts. The
load tool runs in this process: slices can be short, so that both servers of a pair run at the same
speed of the machine. The exit code is 0 if the 95 % interval of the ratio of their rates is above
0.97, 1 if it is below, and 7 if it contains 0.97. It takes about 18 minutes.
"""

from __future__ import annotations

import random
import statistics
import sys
from contextlib import ExitStack

from offload import prctl
from offload.engine import decisions, server
from offload.errors import GateError, UndecidedError
from offload.loads import Load, Window
from offload.loads.engine.figures import summary
from offload.loads.engine.processes import SharedState, counted_time, work
from offload.registry import catalog
from offload.suites import Case
from scripts.script import run

STARTS, PAIRS = 60, 60  # of both servers; of slices after each start
SLICE, WARM = 0.1, 0.03  # s of each slice, and of the warm-up before it
USERS = 8
LEAST = 0.97
TASK = "noop_sync"  # a task that does nothing: the cost is largest


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit code."""
    task = catalog.find_task(arguments[0] if arguments else TASK).name
    prctl.adopt_orphans()
    starts = []
    for number in range(1, STARTS + 1):
        starts.append(_start(task))
        print(f"start {number} of {STARTS}: {starts[-1][1] / starts[-1][0]:.4f}", flush=True)
    found = decisions.compare_pairs(starts, alpha=0.05)
    assert found.low is not None and found.high is not None
    text = f"ratio {found.ratio:.4f}, 95 % interval {found.low:.4f} to {found.high:.4f}"
    code, result = 0, "at most 3 %"
    if found.high < LEAST:
        code, result = GateError.exit_code, "failed: more than 3 %"
    elif found.low <= LEAST:
        code, result = UndecidedError.exit_code, "too noisy to judge"
    print(f"{task}, rate with protection over without: {text}: {result}")
    return code


def _start(task: str) -> tuple[float, float]:
    """Start both servers; return their mean rates in requests/s, without protection first."""
    with ExitStack() as stack:
        urls = ["", ""]
        for place in random.sample((0, 1), 2):
            settings = {"protect": ("no", "yes")[place]}
            running = server.start(Case("threads", task, settings=settings), {})
            stack.callback(server.stop, running, server.SHORT_DRAIN)
            urls[place] = running.url
        rates: tuple[list[float], list[float]] = ([], [])
        for _ in range(PAIRS):
            for place in random.sample((0, 1), 2):
                rates[place].append(_rate(urls[place]))
    first, second = map(statistics.geometric_mean, rates)
    return first, second


def _rate(url: str) -> float:
    load = Load(url, users=USERS, seconds=SLICE, window=Window(WARM))
    state = SharedState(load.processes)
    parts = [work(load, load, state, 0)]
    result = summary(load, counted_time(load, state, parts), parts)
    return result.figures.rate or sys.exit(f"no rate: {result.problem}")


if __name__ == "__main__":
    run(main)
