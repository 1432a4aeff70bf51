"""The hop over HTTP: the CPU that a server's executor adds to a direct answer, beside its peers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from offload.bench.experiments import interleaved
from offload.bench.experiments.interleaved import InTurn
from offload.bench.records.record import Record
from offload.bench.stats import ratio, student_t
from offload.bench.stats.ratio import Interval
from offload.bench.trial import flags
from offload.registry import catalog
from offload.suites import Case

DIRECT, THREADS, STANDARD = "loop", "threads", "processes"  # DIRECT answers without an executor
SERVERS = (DIRECT, THREADS, STANDARD, "pipes", "pebble", "anyio_threads", "interpreters")
PEERS = ("starlette_threads", "gunicorn_gthread", "granian_wsgi")  # whose HTTP is another
TASK, USERS, SUITE = "noop_sync", 64, "executors"
SLICE = {False: 1.0, True: 0.5}  # s of each server in a round; with quick
BUDGET = {False: 300.0, True: 80.0}  # s of all rounds, with their starts; with quick


@dataclass(frozen=True)
class Hop:
    """What one server did with a task that does nothing; None is not known, or is no question.

    `rate` is in requests a second, `cpu_us` the CPU time of the server's whole tree a request.
    `added_us` is that less DIRECT's of the same round, and `of_threads` how many times what THREADS
    add; peers have neither, for their HTTP costs something else. `of_standard` is the rate over
    STANDARD's. A rate that is `client_bound` was set by the load tool: it could be higher.
    """

    server: str
    rounds: int
    rate: float
    cpu_us: float
    added_us: Interval | None
    of_threads: Interval | None
    of_standard: Interval | None
    client_bound: bool


def measure_servers(quick: bool, workers: int, tell: Callable[[str], object]) -> InTurn:
    """Load every installed server, interleaved."""
    cases = [_case(server, workers) for server in (*SERVERS, *PEERS)]
    return interleaved.measure_interleaved(cases, SUITE, SLICE[quick], BUDGET[quick], tell)


def summarize(records: Sequence[Record]) -> list[Hop]:
    """Summarize the rounds by server; without a direct response the added CPU is unknown."""
    rounds: dict[str, dict[int, Record]] = {}
    for record in records:
        if (
            record.result.rate
            and record.resources.cpu_ms_per_request
            and record.trial.round is not None
        ):
            rounds.setdefault(record.case.server, {})[record.trial.round] = record
    return [_hop(server, rounds) for server in (*SERVERS, *PEERS) if server in rounds]


def left_out(measured: InTurn) -> dict[str, str]:
    """Return by server why it has no figures, in all rounds or from some round on."""
    known = {hop.server for hop in summarize(measured.records)}
    without = {
        r.case.server: str(r.problem) for r in measured.records if r.case.server not in known
    }
    why = {name: f"{name}: {said or 'no request was completed'}" for name, said in without.items()}
    return why | measured.missing


def _case(server: str, workers: int) -> Case:
    takes = catalog.find_server(server).settings
    settings = {"workers": workers} if "workers" in takes else {}
    return Case(server, TASK, users=USERS, keep_alive=True, settings=settings)


def _hop(server: str, rounds: Mapping[str, Mapping[int, Record]]) -> Hop:
    own, direct = rounds[server], rounds.get(DIRECT, {})
    added = {} if server in (DIRECT, *PEERS) else _added(own, direct)
    threads = _added(rounds.get(THREADS, {}), direct)
    both = [(threads[n], added[n]) for n in added if n in threads and server != THREADS]
    return Hop(
        server,
        len(own),
        statistics.geometric_mean(_rate(r) for r in own.values()),
        statistics.fmean(_cpu_us(r) for r in own.values()),
        _mean([*added.values()]),
        ratio.ratio_of_means(both),
        None if server == STANDARD else _times(own, rounds.get(STANDARD, {})),
        any("client-bound" in flags.kinds(r) for r in own.values()),
    )


def _added(own: Mapping[int, Record], direct: Mapping[int, Record]) -> dict[int, float]:
    """Return by round how much more CPU a request takes than a direct response, in us."""
    return {n: _cpu_us(own[n]) - _cpu_us(direct[n]) for n in own if n in direct}


def _times(own: Mapping[int, Record], other: Mapping[int, Record]) -> Interval | None:
    """Return the ratio of its rate to another's of the same round."""
    return ratio.geometric_mean_ratio([(_rate(other[n]), _rate(own[n])) for n in own if n in other])


def _mean(values: Sequence[float]) -> Interval | None:
    if len(values) < 2:
        return None
    return (statistics.fmean(values), *student_t.mean_interval(values))


def _rate(record: Record) -> float:
    return record.result.rate or 0.0


def _cpu_us(record: Record) -> float:
    return 1000 * (record.resources.cpu_ms_per_request or 0.0)
