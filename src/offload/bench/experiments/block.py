"""One round of a block: its servers start together, are loaded one after the other, and stop.

    start all -> first requests to each -> windows: A B C, C B A -> stop all -> records

The cases have their first windows in a random order and their second ones in the reverse order, so
that changes of the machine affect all cases alike. With one window per case, every second round has
the reverse order of the round before. Every round starts new servers, because rates differ between
starts of the same server. While one server is loaded, the others are idle and use no CPU.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from offload.bench.experiments import slices
from offload.bench.experiments.ready_server import ReadyServer, StartedServer
from offload.bench.planning import blocks
from offload.bench.records.record import (
    Record,
    Trial,
)
from offload.bench.target import handshake, server
from offload.bench.target.needed_upstream import needs_upstream
from offload.bench.target.server import Server
from offload.bench.trial import builder, single_request, workload
from offload.bench.trial.single_request import SingleRequest
from offload.bench.trial.trial import Phases, Report, measure_baseline
from offload.errors import UserError
from offload.flags import TOO_SLOW
from offload.suites import Case
from offload.upstream import Upstream

READY_PER_WORKER = 0.5  # s that are added to the start timeout for each worker of the block


@dataclass(frozen=True)
class WindowDesign:
    """The windows of each case in a round: one instead of two, and their length.

    `beside_s` is the minimum length in s of a window in a block of several servers. With
    `has_slices`, each window consists of two slices if all servers are fast enough for them.
    """

    has_one: bool = False
    beside_s: float = workload.SHORT_WINDOW
    has_slices: bool = False


MANY_ROUNDS = WindowDesign(has_one=True)  # if the time budget is too short for second windows
SLICES = WindowDesign(has_one=True, has_slices=True)


def measure_round(
    cases: Mapping[int, Case],
    trial: Trial,
    upstream: Upstream | UserError | None,
    report: Report,
    with_gil: bool,
    design: WindowDesign = WindowDesign(),
) -> list[Record]:
    """Measure one round of a block; return the records of its windows, in the order of the cases.

    The keys of `cases` are their places in the plan, which are also saved in the records. A case
    that cannot be measured has one record, with its problem. `with_gil`: sample the GIL of single
    requests before the windows.
    """
    phases = Phases(report)
    with ExitStack() as stack:
        with phases.of("start", 1.0):
            servers, records = _start(stack, cases, trial, upstream, with_gil)
        members: dict[int, ReadyServer] = {}
        with phases.of("baseline", float(len(servers))):
            for place, started in servers.items():
                try:
                    members[place] = _make_ready(started, trial, with_gil)
                except UserError as error:
                    records[place] = [started.stop(trial, error)]
        order = _order(members, trial, design.has_one)
        if design.has_slices and slices.are_possible(members):
            with phases.of("load", slices.expected_s(members)):
                found = slices.measure(members, order, trial)
            records |= {place: [record] for place, record in found.items()}
            order = []
        for number, place in enumerate(order, start=1):
            if _is_too_slow(records.get(place, ())):
                continue
            pids = [m.started.running.process.pid for p, m in members.items() if p != place]
            with phases.of("load", workload.WINDOW, place):
                record = members[place].window(replace(trial, order=number), pids, design.beside_s)
            records.setdefault(place, []).append(record)
        with phases.of("stop", 1.0):
            stack.close()
    return [
        _complete(record, servers[place].running if place in members else None, phases)
        for place in cases
        for record in records[place]
    ]


def _start(
    stack: ExitStack,
    cases: Mapping[int, Case],
    trial: Trial,
    upstream: Upstream | UserError | None,
    with_gil: bool,
) -> tuple[dict[int, StartedServer], dict[int, list[Record]]]:
    """Launch the servers of all cases, then wait for each.

    Return the started servers, and the records of those that failed, by place.
    """
    ready_s = handshake.READY + READY_PER_WORKER * sum(map(blocks.workers, cases.values()))
    launched: dict[int, StartedServer] = {}
    failed: dict[int, list[Record]] = {}
    for place, case in cases.items():
        needed = upstream if needs_upstream(case) else None
        known = None if isinstance(needed, UserError) else needed
        facts = builder.case_facts(case, known)
        try:
            if isinstance(needed, UserError):
                raise needed
            variables = {} if known is None else dict(known.environment())
            if with_gil:
                variables["SERVER_QUEUE_CLOCK"] = "1"
            running = server.launch(case, variables, ready_s)
        except UserError as error:
            failed[place] = [
                builder.unavailable(replace(trial, place=place), facts, case.settings, error)
            ]
            continue
        stack.callback(server.stop, running, server.SHORT_DRAIN)
        launched[place] = StartedServer(place, case, facts, known, running)
    stack.callback(_request_stops, [started.running for started in launched.values()])
    ready: dict[int, StartedServer] = {}
    for place, started in launched.items():
        try:
            server.await_ready(started.running, started.case)
            ready[place] = started
        except UserError as error:
            failed[place] = [started.stop(trial, error)]
    return ready, failed


def _request_stops(servers: Sequence[Server]) -> None:
    """Request the stop of all servers, so that they drain at the same time."""
    for each in servers:
        server.request_stop(each)


def _make_ready(started: StartedServer, trial: Trial, with_gil: bool) -> ReadyServer:
    """Send the first requests to a server; `with_gil` also measures single requests."""
    url = workload.url(started.running.url, started.request)
    reported = started.running.facts
    before, flags = measure_baseline(trial, started.facts, url, started.request, reported)
    alone = SingleRequest()
    if with_gil:
        load = workload.alone(url, started.facts, started.request)
        alone = single_request.measure(load, reported, before)
    facts = builder.server_facts(reported)
    return ReadyServer(started, url, facts, before, alone, flags)


def _order(members: Mapping[int, ReadyServer], trial: Trial, has_one: bool) -> list[int]:
    """Return the places of the cases in random order, then in reverse; a single place only once.

    With one window per case, an even round has the reverse order of the round before.
    """
    number = trial.round or 1
    pair = (number - 1) // 2
    rng = random.Random(f"{trial.seed}-{trial.block}-{pair}")  # noqa: S311 - no secret
    order = rng.sample([*members], len(members))
    order = order if number % 2 else order[::-1]
    return order if has_one or len(order) == 1 else order + order[::-1]


def _is_too_slow(windows: Sequence[Record]) -> bool:
    """Whether the first window was too slow for the users, so that a second one would fail, too."""
    return any(record.problem and record.problem.kind == TOO_SLOW for record in windows)


def _complete(record: Record, stopped: Server | None, phases: Phases) -> Record:
    """Add the facts of the stopped server, and the phases that all windows of a round share."""
    common = {name: seconds for name, seconds in phases.seconds.items() if name != "load"}
    trial = replace(record.trial, phases={**common, **record.trial.phases})
    if stopped is None:
        return replace(record, trial=trial)
    facts, left = builder.with_ending(record.server, stopped)
    return replace(record, trial=trial, server=facts, flags=record.flags + left)
