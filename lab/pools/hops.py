"""The hop over HTTP: the CPU time per request that a server's executor adds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.pools.ratio_of_means import ratio_of_means
from offload.engine import intervals, plan
from offload.engine.builder import flag_kinds
from offload.engine.figures import rate_of
from offload.engine.intervals import Interval
from offload.engine.plan import Block, Plan, Sequential
from offload.engine.record import Record, RoundKey, average_by_round
from offload.registry import catalog
from offload.suites import Case

DIRECT, THREADS, STANDARD = "loop", "threads", "processes"  # DIRECT has no executor
SERVERS = (DIRECT, THREADS, STANDARD, "pipes", "pebble", "anyio_threads", "interpreters")
PEERS = ("starlette_threads", "gunicorn_gthread", "gunicorn_dirty", "granian_wsgi")  # other HTTP
WITHOUT_POOL = {"gunicorn_dirty": "gunicorn_gthread"}  # a peer: the same HTTP server without a pool
TASK, USERS, SUITE = "noop_sync", 64, "executors"
NO_RESPONSE = "no request was completed"
BUDGET = {False: 300.0, True: 120.0}  # s for all rounds, with their starts; by quick

Rounds = Mapping[RoundKey, tuple[float, float]]  # rate in requests/s, CPU time of a request in us


@dataclass(frozen=True)
class Hop:
    """The figures of one server with a task that does nothing; None is unknown or not defined.

    `rate` is in requests/s; `cpu_us` is the CPU time per request of the server's process tree, in
    microseconds. `added_us` is `cpu_us` minus that of DIRECT in the same round, and `of_threads`
    the ratio of `added_us` to that of THREADS. PEERS use other HTTP servers, so `added_us` is known
    only for those in WITHOUT_POOL: it is `cpu_us` minus that of the server named there.
    `of_standard` is the ratio of the rate to that of STANDARD. With `client_bound` the load tool
    limited the rate, so the server may be faster.
    """

    server: str
    rounds: int
    rate: float
    cpu_us: float
    added_us: Interval | None
    of_threads: Interval | None
    of_standard: Interval | None
    client_bound: bool


def servers_plan(is_quick: bool, workers: int) -> Plan:
    """Return the plan of a run of all servers in one block, which ends with its time budget."""
    cases = tuple(_case(server, workers) for server in (*SERVERS, *PEERS))
    blocks = (Block(tuple(range(len(cases)))),)
    seed = plan.new_seed()
    rule = Sequential(quick=is_quick, budget_s=BUDGET[is_quick])
    return Plan(SUITE, cases, seed, None, rule, blocks=blocks)


def summarize(records: Sequence[Record]) -> list[Hop]:
    """Summarize the rounds by server; without rounds of DIRECT the added CPU time is unknown."""
    rounds: dict[str, Rounds] = {}
    for name in (*SERVERS, *PEERS):
        own = [record for record in records if record.case.server == name]
        rates, cpu = average_by_round(own, rate_of), average_by_round(own, _cpu_ms)
        if known := {which: (rates[which], 1000 * cpu[which]) for which in rates if which in cpu}:
            rounds[name] = known
    return [_hop(name, rounds, records) for name in rounds]


def missing_servers(records: Sequence[Record]) -> dict[str, str]:
    """Return the servers without figures, each with the reason."""
    known = {hop.server for hop in summarize(records)}
    return {
        r.case.server: f"{r.case.server}: {r.problem.text if r.problem else NO_RESPONSE}"
        for r in records
        if r.case.server not in known
    }


def _case(server: str, workers: int) -> Case:
    has_workers = catalog.find_server(server).size == "workers"
    settings = {"workers": workers} if has_workers else {}
    return Case(server, TASK, users=USERS, keep_alive=True, settings=settings)


def _hop(server: str, rounds: Mapping[str, Rounds], records: Sequence[Record]) -> Hop:
    own, direct = rounds[server], rounds.get(DIRECT, {})
    reference = WITHOUT_POOL.get(server) or (DIRECT if server in SERVERS[1:] else None)
    added = _added(own, rounds.get(reference, {})) if reference else {}
    threads = _added(rounds.get(THREADS, {}), direct)
    both = [(threads[n], added[n]) for n in added if n in threads and server != THREADS]
    windows = [record for record in records if record.case.server == server]
    return Hop(
        server,
        len(own),
        statistics.geometric_mean(rate for rate, _ in own.values()),
        statistics.fmean(cpu_us for _, cpu_us in own.values()),
        _mean([*added.values()]),
        ratio_of_means(both),
        None if server == STANDARD else _rate_ratio(own, rounds.get(STANDARD, {})),
        any("client-bound" in flag_kinds(record) for record in windows),
    )


def _added(own: Rounds, direct: Rounds) -> dict[RoundKey, float]:
    """Return the CPU time per request minus that of a direct response, in us, by round."""
    return {which: own[which][1] - direct[which][1] for which in own if which in direct}


def _rate_ratio(own: Rounds, other: Rounds) -> Interval | None:
    """Return the ratio of a server's rate to another's, paired by round."""
    return intervals.geometric_mean_ratio(
        [(other[which][0], own[which][0]) for which in own if which in other]
    )


def _mean(values: Sequence[float]) -> Interval | None:
    if len(values) < 2:
        return None
    return (statistics.fmean(values), *intervals.mean_interval(values))


def _cpu_ms(record: Record) -> float | None:
    return record.resources.cpu_ms_per_request
