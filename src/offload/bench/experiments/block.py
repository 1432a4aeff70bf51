"""One round of a block: its servers start together, are loaded one after the other, and stop.

    start all -> first requests to each -> windows: A B C, C B A -> stop all -> records

The cases have their first windows in a random order and their second ones in the reverse order, so
that changes of the machine affect all cases alike. With one window per case, every second round has
the reverse order of the round before. Every round starts new servers, because rates differ between
starts of the same server. While one server is loaded, the others are idle and use no CPU.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from offload.bench.trial import builder, load_phase, workload
from offload.bench.trial.load_phase import LoadOutcome, SingleRequest
from offload.bench.trial.trial import Phases, Report, build_record, measure_baseline
from offload.engine import server
from offload.engine.host import SpeedMeter, measure_speed
from offload.engine.plan import count_workers
from offload.engine.record import Baseline, CaseFacts, Memory, Record, ServerFacts, Trial
from offload.engine.server import Server, needs_upstream
from offload.errors import UserError
from offload.flags import TOO_SLOW, Flag, Problem
from offload.suites import Case, Request
from offload.upstream import Upstream

READY_PER_WORKER = 0.5  # s that are added to the start timeout for each worker of the block


@dataclass(frozen=True)
class WindowDesign:
    """The windows of each case in a round: one instead of two, and their length.

    `beside_s` is the minimum length in s of a window in a block of several servers.
    """

    has_one: bool = False
    beside_s: float = workload.SHORT_WINDOW


MANY_ROUNDS = WindowDesign(has_one=True)  # if the time budget is too short for second windows


@dataclass(frozen=True)
class StartedServer:
    """A case of the round and its started server, which may not be ready yet."""

    place: int
    case: Case
    facts: CaseFacts
    upstream: Upstream | None
    running: Server

    @property
    def request(self) -> Request:
        """The request that the users of the case send."""
        return self.case.request or Request()

    def stop(self, trial: Trial, error: UserError) -> Record:
        """Stop a server that cannot be measured; return the record of its error."""
        server.stop(self.running, server.SHORT_DRAIN)
        trial = replace(trial, place=self.place)
        return builder.unavailable(trial, self.facts, self.case.settings, error)


@dataclass(frozen=True)
class ReadyServer:
    """A server that has responded to its first requests."""

    started: StartedServer
    url: str
    facts: ServerFacts
    before: Baseline
    alone: SingleRequest
    flags: tuple[Flag, ...]

    def window(self, trial: Trial, neighbours: Sequence[int], window_s: float) -> Record:
        """Load the server once; with other servers in the block, for at least `window_s`.

        `neighbours` are the pids of the other servers.
        """
        speed = measure_speed()
        case, running = self.started.facts, self.started.running
        sent, beside_s = self.started.request, window_s if neighbours else None
        load = workload.window(self.url, case, self.facts, self.before, sent, running, beside_s)
        placement = self.started.case.placement
        if placement.hosts:
            load = workload.of_fixed_length(load, workload.cycle_s(case, self.facts, self.before))
        started = time.monotonic()
        with SpeedMeter() as speed_meter:
            loaded = load_phase.run(
                load,
                "builtin",
                running.facts,
                self.started.upstream,
                neighbours,
                placement.sender,
                speed_meter,
            )
        loaded = load_phase.with_pin(loaded, placement.pin)
        load_s = round(time.monotonic() - started, 3)
        loaded = self._with_explanation(loaded)
        trial = replace(trial, place=self.started.place, phases={"load": load_s})
        facts = builder.with_gil(self.facts, loaded.gil_state)
        resources = loaded.resources
        host = replace(resources.host, python_s=speed.python_s, memory_s=speed.memory_s)
        memory = resources.memory
        if neighbours:  # servers of a block share pages
            memory = Memory(whole_mib=memory.whole_mib)
        loaded = replace(loaded, resources=replace(resources, host=host, memory=memory))
        return build_record(trial, case, facts, self.before, self.alone, loaded, self.flags)

    def _with_explanation(self, loaded: LoadOutcome) -> LoadOutcome:
        """Explain a failed load if its users waited for each other until the timeout."""
        case, problem = self.started.facts, loaded.problem
        is_slow = workload.waited_too_long(case, self.before, loaded.result.failed)
        if problem is None or not is_slow:
            return loaded
        takes = f"a request takes {self.before.alone_s:.3g} s alone, and there are {case.users}"
        what = f"{problem.text} ({takes} users)"
        fix = "use fewer users (users=1), or a shorter task"
        return replace(loaded, problem=Problem(TOO_SLOW, what, fix))


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
        for number, place in enumerate(_order(members, trial, design.has_one), start=1):
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
    ready_s = server.READY + READY_PER_WORKER * sum(map(count_workers, cases.values()))
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
        alone = load_phase.measure_single_request(load, reported, before)
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
