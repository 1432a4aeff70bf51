"""Measure worker pools in a child process: `python -m lab.pools`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from lab import environment
from offload.engine.server import read_lines
from offload.errors import RunError

BUDGET = {False: (0.25, 660.0), True: (0.05, 60.0)}  # s of a slice and of all rounds; by quick
GRACE = 120.0  # s beyond the budget: to start all pools, for the last round and to exit

Line = dict[str, Any]


def measure_pools(
    quick: bool,
    workers: int,
    on_progress: Callable[[str], None],
    more: Sequence[str] = (),
    more_s: float = 0.0,
) -> list[Line]:
    """Measure every installed pool in a child process; raise RunError if that fails.

    `more` are further arguments, which take `more_s` seconds in addition to the rounds.
    """
    seconds, budget = BUDGET[quick]
    arguments = [f"--workers={workers}", f"--seconds={seconds}", f"--budget={budget}", *more]
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "lab.pools",
            *arguments,
            *(["--quick"] * quick),
        ],
        env=environment(),
        stdout=subprocess.PIPE,
        process_group=0,
    )
    assert process.stdout is not None
    found: list[Line] = []
    rounds = 0
    try:
        for line in read_lines(process.stdout.fileno(), time.monotonic() + budget + more_s + GRACE):
            if line["kind"] == "missing":
                on_progress(f"without {line['pool']}: {line['why']}")
            elif line["kind"] == "slice" and line["round"] == rounds:
                rounds += 1
                on_progress(f"round {rounds}")
            found.append(line)
        if process.wait(GRACE):
            raise RunError("the pool comparison failed", "see its output above")
    except TimeoutError:
        raise RunError(
            "timeout: the pool comparison did not finish, because one of its pools hangs"
        ) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return found
