"""What the GIL costs, by the clocks inside the tasks and by the rates of threads and processes.

Of a call, N of them at a time: w is its wall time, c the CPU time of its thread, q how long that
thread waited for a CPU, and b how long it was blocked alone, at N = 1. All are means in seconds.
What w has beyond the three others is a wait for the GIL.
"""

from __future__ import annotations

import math


def blocked(w_1: float, c_1: float, q_1: float) -> float:
    """Give b = max(0, w_1 - c_1 - q_1), s: alone, none waits for the GIL."""
    _check(w_1, c_1, q_1)
    return max(0.0, w_1 - c_1 - q_1)


def wait_share(w_n: float, c_n: float, q_n: float, b: float) -> float:
    """Give gamma = max(0, w_N - c_N - q_N - b) / w_N, the GIL-wait share of a call, from 0 to 1.

    Raise ValueError for a w_N of 0, and for times below it. What a task waits for that is neither,
    such as a lock of its own or a slower disk, counts as the GIL too.
    """
    _check(w_n, c_n, q_n, b)
    if w_n == 0:
        raise ValueError("a call that took no time has no share of it")
    return max(0.0, w_n - c_n - q_n - b) / w_n


def inflation(c_n: float, c_1: float) -> float:
    """Give kappa = c_N / c_1, the CPU inflation; raise ValueError for a c_1 of 0."""
    _check(c_n, c_1)
    if c_1 == 0:
        raise ValueError("a call that used no CPU cannot use more of it")
    return c_n / c_1


def speed_up(n: int, gamma: float, kappa: float) -> float:
    """Give S_N = N (1 - gamma) / kappa, by which N threads do more than one.

    That is S_N = N w_1 / w_N of a task that neither blocks nor queues, so that w_1 = c_1. One that
    blocks does better where kappa is above 1, for its blocked time is not inflated; one that queues
    does worse. Raise ValueError for n below 1, gamma outside 0 to 1 and kappa of 0 or less.
    """
    if n < 1 or not 0 <= gamma <= 1 or not 0 < kappa < math.inf:
        raise ValueError(f"no speed-up of n={n}, gamma={gamma}, kappa={kappa}")
    return n * (1 - gamma) / kappa


def cost(rate_threads: float, rate_processes: float) -> float:
    """Give C = 1 - rate(threads) / rate(processes), the GIL cost: 0 none, below 0 threads win.

    Rates are in calls a second, at equal N. Raise ValueError for processes without a rate.
    """
    _check(rate_threads, rate_processes)
    if rate_processes == 0:
        raise ValueError("processes that answer nothing are no measure for threads")
    return 1 - rate_threads / rate_processes


def _check(*values: float) -> None:
    if not all(0 <= value < math.inf for value in values):
        raise ValueError(f"times and rates are numbers of 0 or more, not {values}")
