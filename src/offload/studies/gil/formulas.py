"""The cost of the GIL, from the clocks inside the tasks and the rates of threads and processes.

Definitions, for N concurrent calls: w is the wall time of a call, c the CPU time of its thread, q
the time in which that thread waited for a CPU, and b the time in which a single call (N = 1) is
blocked. All are means in seconds. The GIL wait of a call is w - c - q - b.
"""

from __future__ import annotations

import math


def wait_share(w_n: float, c_n: float, q_n: float, b: float) -> float:
    """Return gamma = max(0, w_N - c_N - q_N - b) / w_N, the GIL-wait share of a call, from 0 to 1.

    Other waits that grow with N, such as for the task's own lock or a busy disk, count as GIL wait,
    too. Raise ValueError for w_N = 0 and for negative times.
    """
    _check(w_n, c_n, q_n, b)
    if w_n == 0:
        raise ValueError("the GIL-wait share needs a wall time above 0")
    return max(0.0, w_n - c_n - q_n - b) / w_n


def inflation(c_n: float, c_1: float) -> float:
    """Return kappa = c_N / c_1, the CPU inflation; raise ValueError for c_1 = 0."""
    _check(c_n, c_1)
    if c_1 == 0:
        raise ValueError("the CPU inflation needs a CPU time above 0 at N = 1")
    return c_n / c_1


def speed_up(n: int, gamma: float, kappa: float) -> float:
    """Return S_N = N (1 - gamma) / kappa, the speed-up of N threads over one.

    This equals N w_1 / w_N for a task that neither blocks nor waits for a CPU (w_1 = c_1). A task
    that blocks has a higher speed-up if kappa is above 1, because its blocked time is not inflated;
    a task that waits for a CPU has a lower one. Raise ValueError for n below 1, gamma outside 0 to
    1 and kappa of 0 or less.
    """
    if n < 1 or not 0 <= gamma <= 1 or not 0 < kappa < math.inf:
        raise ValueError(f"speed-up is not defined for n={n}, gamma={gamma}, kappa={kappa}")
    return n * (1 - gamma) / kappa


def cost(rate_threads: float, rate_processes: float) -> float:
    """Return C = 1 - rate(threads) / rate(processes), the GIL cost; if negative, threads win.

    Rates are in calls/s at equal N. Raise ValueError if the rate of processes is 0.
    """
    _check(rate_threads, rate_processes)
    if rate_processes == 0:
        raise ValueError("the GIL cost needs a rate of processes above 0")
    return 1 - rate_threads / rate_processes


def _check(*values: float) -> None:
    if not all(0 <= value < math.inf for value in values):
        raise ValueError(f"times and rates must be numbers of 0 or more, not {values}")
