"""How much of the rate that CPU, users and workers allow an application reaches.

A closed network of queues, solved by mean value analysis (Reiser and Lavenberg 1980, Mean-value
analysis of closed multichain queueing networks): a request alternates between a delay, in which it
waits for what no other request keeps busy, and stations at which requests queue: the event loop or
the GIL of its process, the CPUs, and the load tool. A station with several servers is one that is
as many times as fast, and a delay (Seidmann, Schweitzer and Shalev-Oren 1987). Near the point where
users and CPU limit a rate alike, queueing alone takes up to a third of it: bounds would call that
unexplained.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.engine import intervals
from offload.engine.record import Record
from offload.errors import UserError
from offload.registry import catalog

USERS, WORKERS, CPU, LOAD_TOOL = "users", "workers", "cpu", "load tool"
FULL = 0.1  # share of time with all of anyio's threads in use, from which they are the workers
CLOSED = "closed"  # model of a load: an open one sets the rate itself
LEAST_S = 1e-6
HANDOVER_S = 50e-6  # a guess: time from the wake-up of a thread until it holds a free GIL


@dataclass(frozen=True)
class Ceiling:
    """The `rate` in requests/s that CPU, users and workers allow, and what limits it: `by`.

    If these are the workers of the server, there are `workers` of them in all its processes.
    `reached` is the measured share of it, and `reached_high` the upper end of its interval, from
    the intervals of the measured rate and of the response time of a single request. `others` is the
    share of the machine's CPU that other programs used.
    """

    rate: float
    by: str
    reached: float
    reached_high: float
    others: float
    workers: int | None = None


@dataclass(frozen=True)
class Station:
    """What requests queue for: the time in s that each needs, and the number of servers."""

    demand_s: float
    servers: float = 1.0


def find(records: Sequence[Record]) -> Ceiling | None:
    """Return the ceiling of a case; None if no closed load has the figures for it."""
    closed = [each for each in records if each.load.model == CLOSED and each.result.rate]
    alone_s, longest_s = _alone_s(closed)
    found = sorted(
        (
            each
            for record in closed
            if (each := _find_in_load(record, alone_s, longest_s)) is not None
        ),
        key=lambda each: each.reached,
    )
    if not found:
        return None
    middle, factor = found[(len(found) - 1) // 2], _widening(closed)
    return replace(
        middle,
        reached_high=factor * statistics.geometric_mean(each.reached_high for each in found),
        others=statistics.median(each.others for each in found),
    )


def _find_in_load(record: Record, alone_s: float | None, longest_s: float | None) -> Ceiling | None:
    """Return the ceiling of one load; `longest_s` is the upper end of the interval of `alone_s`."""
    rate = record.result.rate
    if not rate or not alone_s or record.resources.cores_used is None:
        return None
    allowed, by = _allowed(record, rate, alone_s)
    least, _ = _allowed(record, rate, longest_s or alone_s)
    host = record.resources.host
    others = min(1.0, (host.others_cpu or 0.0) + (host.steal or 0.0))
    workers = _workers(record) if by == WORKERS else None
    return Ceiling(allowed, by, rate / allowed, rate / least, others, workers)


def _widening(records: Sequence[Record]) -> float:
    """Return the factor from a mean rate to the upper end of its 95 % interval.

    Of a single window it is that of its number of responses, as if these were independent.
    """
    rates = [each.result.rate or 0.0 for each in records]
    if len(rates) > 2:
        logs = [math.log(rate) for rate in rates]
        return math.exp(intervals.mean_interval(logs)[1] - statistics.fmean(logs))
    completed = sum(each.result.completed or 0 for each in records)
    return 1 + 1.96 / math.sqrt(max(1, completed))


def _alone_s(records: Sequence[Record]) -> tuple[float, float] | tuple[None, None]:
    """Return the response time of a single request in s, and the upper end of its 95 % interval.

    The load of one user has more requests than come before a load, but their times are those inside
    the application, without HTTP.
    """
    medians = [each.baseline.alone_s for each in records if each.baseline.alone_s]
    if not medians:
        return None, None
    alone_s = statistics.median(medians)
    for record in records:
        mean_s, high_s = record.tasks.alone_s, record.tasks.alone_high_s
        if mean_s is not None and high_s is not None:
            alone_s = max(alone_s, mean_s)
            return alone_s, alone_s + high_s - mean_s
    each_s = [taken_s for record in records for taken_s in record.baseline.each_s]
    if len(each_s) < 2:
        return alone_s, alone_s
    alone_s = max(alone_s, statistics.fmean(each_s))
    return alone_s, max(alone_s, intervals.mean_interval(each_s)[1])


def _allowed(record: Record, rate: float, alone_s: float) -> tuple[float, str]:
    """Return the requests/s that the figures of one load allow, and what limits them."""
    processes = record.application.processes or 1
    stations = _stations(record, rate / processes)
    workers = _workers(record)
    users = record.case.users * min(1.0, record.result.little_ratio or 1.0)
    at_once = users if workers is None else min(users, workers)
    tool_s = (record.load.cpu_s or 0.0) / (record.result.completed or 1)
    tool = Station(tool_s * processes, record.case.clients)  # a process has its share of the tool
    busy_s, think_s = math.fsum(each.demand_s for each in stations), record.case.think_s
    delay_s = max(0.0, alone_s - busy_s) + think_s
    each = mean_value_analysis(at_once / processes, delay_s, [*stations, tool])
    bounds = {
        USERS if at_once == users else WORKERS: at_once / (max(alone_s, busy_s) + think_s),
        CPU: processes / max(LEAST_S, *(each.demand_s / each.servers for each in stations)),
        LOAD_TOOL: processes * tool.servers / max(LEAST_S, tool.demand_s),
    }
    return processes * each, min(bounds, key=bounds.__getitem__)


def _stations(record: Record, each: float) -> list[Station]:
    """Return the stations of a process that answers `each` requests/s: its GIL, and the CPUs.

    The time in which its threads waited for a CPU counts as CPU time.
    """
    own, used, elapsed_s = record.application, record.resources, record.result.elapsed_s or 1.0
    processes = own.processes or 1
    queued = (used.queued_s or 0.0) / elapsed_s
    cpu_s = ((used.cores_used or 0.0) + queued) / processes / each
    cores = record.environment.get("cores")
    share = max(1.0, cores / processes) if isinstance(cores, int) else 1.0
    if own.has_loop and max(own.threads.limiter.used or 0, own.threads.asyncio or 0) <= 1:
        return [Station(cpu_s)]  # all requests run on one event loop
    if record.server.interpreter.get("gil_enabled") is False:
        return [Station(cpu_s, share)]
    held = record.gil.utilisation.value
    passed_s = HANDOVER_S * (record.gil.switches or 0) / (record.result.completed or 1)
    gil_s = cpu_s if held is None else held / each + passed_s
    return [Station(gil_s), Station(max(0.0, cpu_s - gil_s), share)]


def _workers(record: Record) -> int | None:
    """Return the number of requests that the server runs at once; None if they are unlimited."""
    processes, limiter = record.application.processes or 1, record.application.threads.limiter
    if limiter.total is not None and (limiter.full or 0.0) >= FULL:
        return limiter.total * processes
    try:
        entry = catalog.find_server(record.case.server)
    except UserError:  # it was measured elsewhere
        return None
    if entry.serves != "wsgi":
        return None
    return record.server.all_workers or record.server.processes


def mean_value_analysis(users: float, delay_s: float, stations: Sequence[Station]) -> float:
    """Return the requests/s of a closed network, interpolated between whole numbers of users."""
    delay_s += math.fsum(s.demand_s * (s.servers - 1) / s.servers for s in stations)
    demands = [s.demand_s / s.servers for s in stations]
    lengths = [0.0] * len(demands)
    rate = before = 0.0
    for number in range(1, max(1, math.ceil(users)) + 1):
        waits = [demand * (1 + length) for demand, length in zip(demands, lengths, strict=True)]
        before, rate = rate, number / max(LEAST_S, delay_s + math.fsum(waits))
        lengths = [rate * wait for wait in waits]
    share = 1 - (max(1, math.ceil(users)) - users)
    return before + share * (rate - before)
