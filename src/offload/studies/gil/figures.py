"""The cost of the GIL, from the clocks inside the tasks and the rates of threads and processes.

Definitions, for N concurrent calls: w is the wall time of a call, c the CPU time of its thread, q
the time in which that thread waited for a CPU, and b the time in which a single call (N = 1) is
blocked. All are means in seconds. The GIL wait of a call is w - c - q - b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from offload.engine.record import Record


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


@dataclass(frozen=True)
class Gil:
    """The GIL figures of a record: shares are from 0 to 1, and None is unknown.

    `hold` is h, `utilisation` rho, `wait_share` gamma and `inflation` kappa; `switches` is how
    often the GIL changed threads per request.
    """

    hold: float | None
    utilisation: float | None
    wait_share: float | None
    inflation: float | None
    switches: float | None


def gil_figures(record: Record) -> Gil:
    """Derive the GIL figures from one record; only records of round 1 have all of them."""
    return Gil(
        record.gil.hold.value,
        record.gil.utilisation.value,
        _wait_share(record),
        _inflation(record),
        record.gil.switches / record.result.completed
        if record.gil.switches is not None and record.result.completed
        else None,
    )


def _wait_share(record: Record) -> float | None:
    w_n, c_n, q_n = record.tasks.wall_s, record.tasks.cpu_s, record.tasks.queued_s
    b = record.tasks.alone_blocked_s
    if w_n is None or c_n is None or q_n is None or b is None or w_n == 0:
        return None
    return wait_share(w_n, c_n, q_n, b)


def _inflation(record: Record) -> float | None:
    c_n, c_1 = record.tasks.cpu_s, record.tasks.alone_cpu_s
    return None if c_n is None or not c_1 else inflation(c_n, c_1)
