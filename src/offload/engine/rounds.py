"""Measure one round of a block: its servers start together, are loaded in turn, and stop.

    start all -> first requests to each -> windows: A B C, C B A -> stop all -> records

The cases have their first windows in a random order and their second ones in the reverse order, so
that changes of the machine affect all cases alike. With one window per case, every second round has
the reverse order of the round before. Every round starts new servers, because rates differ between
starts of the same server. While one server is loaded, the others are idle and use no CPU: calls
that the users of a load have left behind end before the next window.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from offload.engine import (
    builder,
    light_route,
    load_phase,
    server,
    server_reports,
    who,
    workload,
)
from offload.engine.application import Who
from offload.engine.builder import build_record
from offload.engine.host import measure_speed
from offload.engine.light_route import LightPaths
from offload.engine.load_phase import LoadOutcome, SingleRequest, measure_baseline
from offload.engine.plan import count_workers
from offload.engine.processes import ProcessTree, measure_idle_memory
from offload.engine.record import (
    Baseline,
    CaseFacts,
    Memory,
    Record,
    ServerFacts,
    Trial,
)
from offload.engine.server import Server, needs_upstream
from offload.engine.server_reports import serves_application
from offload.errors import LOAD, STALLED, TOO_SLOW, Flag, Problem, StartError, UserError
from offload.loads import Figures
from offload.registry import places
from offload.suites import Case, Request
from offload.upstream import Upstream

FAILS_5XX = "5xx"  # as load tools count it
REQUESTS_AFTER = 20  # sent alone after a load: their CPU time is counted in ticks of 10 ms
READY_PER_WORKER = 0.5  # s that are added to the start timeout for each worker of the block
# Failed requests, and their shares, of a load that fails after a window that did not; guesses.
FEWEST_FAILURES, FAILS_LATER, WORKED = 10, 0.05, 0.01
LEFTOVER_S = 15.0  # s until calls that go on after a load are given up; a guess
IDLE_CORES, IDLE_EVERY_S = 0.5, 0.03  # a server that uses less is idle; three ticks of the clock
BACKGROUND_CORES, IDLE_S, IDLE_LOOKS = 0.1, 0.1, 5  # less is none; s of a look, and most of them


@dataclass(frozen=True)
class WindowDesign:
    """The windows of each case in a round: one instead of two, and their length.

    `beside_s` is the minimum length in s of a window in a block of several servers. `sampled` are
    the indexes of the cases whose stacks are sampled after all windows. With `reads_idle` the
    memory of each server is read after all windows, before and after a garbage collection.
    `is_probe`: a load without responses stops soon, and requests alone follow it.
    `is_known`: the response time of a request alone is known, so that a slow one is sent once.
    """

    has_one: bool = False
    beside_s: float = workload.SHORT_WINDOW
    sampled: tuple[int, ...] = ()
    reads_idle: bool = False
    is_probe: bool = False
    is_known: bool = False


MANY_ROUNDS = WindowDesign(has_one=True)  # if the time budget is too short for second windows


@dataclass(frozen=True)
class StartedServer:
    """A case of the round and its started server, which may not be ready yet."""

    case_index: int
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
        trial = replace(trial, case_index=self.case_index)
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
    beside: LightPaths

    def window(
        self,
        trial: Trial,
        neighbours: Sequence[int],
        design: WindowDesign,
    ) -> Record:
        """Load the server once; with other servers in the block, for at least `design.beside_s`.

        `neighbours` are the pids of the other servers.
        """
        speed = measure_speed()
        case, running = self.started.facts, self.started.running
        if design.is_probe:
            fewer = workload.probe_users(case.users, self.alone.task_cpu_s or 0.0)
            case = replace(case, users=fewer)
        sent, beside_s = self.started.request, design.beside_s if neighbours else None
        known = (self.url, case, self.facts, self.before, sent, running)
        load = workload.window(*known, beside_s, design.is_probe, design.is_known)
        if not neighbours and (trial.round or 0) <= 1:  # later rounds add to these requests
            load = replace(load, seconds=max(load.seconds or 0.0, self.beside.window_s))
        placement = self.started.case.placement
        if placement.hosts:
            load = workload.fix_length(load, workload.cycle_s(case, self.facts, self.before))
        started = time.monotonic()
        loaded = load_phase.run(
            load,
            "builtin",
            running.facts,
            self.started.upstream,
            neighbours,
            placement.sender,
            placement.pin,
            self.beside,
        )
        load_s = round(time.monotonic() - started, 3)
        loaded = self._with_explanation(loaded)
        trial = replace(trial, case_index=self.started.case_index, phases={"load": load_s})
        facts = builder.with_gil(self.facts, loaded.gil_state)
        resources = loaded.resources
        host = replace(resources.host, python_s=speed.python_s, memory_s=speed.memory_s)
        memory = resources.memory
        if neighbours:  # servers of a block share pages
            memory = Memory(whole_mib=memory.whole_mib)
        loaded = replace(loaded, resources=replace(resources, host=host, memory=memory))
        return build_record(trial, case, facts, self.before, self.alone, loaded, self.flags)

    def end_calls(self, is_needed: bool) -> None:
        """Wait until calls that a load left behind use no CPU: they go on without their users.

        A server that is no longer needed is stopped if that takes long.
        """
        running, before = self.started.running, self.before
        longest_s = self.started.facts.users * (before.alone_s or 0.0)  # one call after another
        limit_s = LEFTOVER_S if is_needed else server.SHORT_DRAIN
        is_idle = _wait_until_idle(running, before, min(longest_s, limit_s))
        if not is_idle and not is_needed and longest_s > limit_s:
            server.stop(running, server.SHORT_DRAIN)
            running.left = False  # its calls were given up, it did not forget a process

    def measure_alone_after(self) -> tuple[float | None, bool]:
        """Return the shortest response time in s of single requests after a load, and if one fails.

        The time is None if it is unknown. Other programs of the machine may delay some of them. It
        is at most their CPU time: they may wait for what the load has left behind, such as
        background tasks that hold threads. If that still uses CPU, it is unknown.
        """
        if not _wait_until_idle(self.started.running, self.before, workload.LATER_S):
            return None, False
        try:
            tree = ProcessTree(self.started.running.process.pid)
            before_s = tree.cpu_s()
            found = workload.send_first_requests(
                self.url, REQUESTS_AFTER, self.started.request, timeout_s=workload.LATER_S
            )
            after_s = tree.cpu_s()
        except workload.BadStatus as error:
            return None, error.status >= workload.SERVER_ERROR
        except UserError:  # such as one that the load has exhausted
            return None, False
        if before_s is None or after_s is None:
            return None, False
        return round(min(*found.each_s, (after_s - before_s) / (len(found.each_s) + 1)), 6), False

    def sample_stacks(self) -> tuple[Who, Figures | None]:
        """Sample the stacks of the server under the requests of its case; see who.sample_server."""
        started = self.started
        load = workload.load(self.url, started.facts, self.before, started.request)
        folder = places.task_folder(started.case.path)
        return who.sample_server(started.running.facts, load, folder)

    def _with_explanation(self, loaded: LoadOutcome) -> LoadOutcome:
        """Explain a failed load: its users waited for each other, or requests go on to fail."""
        case, problem = self.started.facts, loaded.problem
        if problem is None:
            return loaded
        if not workload.waited_too_long(case, self.before, loaded.result.failed):
            if problem.kind == LOAD and loaded.result.failed.get(FAILS_5XX):
                then = workload.describe_response(self.url, self.started.request)
                what = f"{problem.message}, and a single request {then}"
                return replace(loaded, problem=replace(problem, message=what))
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

    The keys of `cases` are their indexes in the plan, which are also saved in the records. A case
    that cannot be measured has one record, with its problem. `with_gil`: sample the GIL of single
    requests before the windows.
    """
    phases = Phases(report)
    with ExitStack() as stack:
        with phases.of("start", 1.0):
            servers, records = _start(stack, cases, trial, upstream, with_gil)
        members: dict[int, ReadyServer] = {}
        with phases.of("baseline", float(len(servers))):
            for index, started in servers.items():
                try:
                    members[index] = _make_ready(started, trial, with_gil, design.is_known)
                except UserError as error:
                    records[index] = [started.stop(trial, error)]
        needed = {*members} if design.reads_idle or not design.has_one else {*design.sampled}
        loaded: int | None = None
        for number, index in enumerate(_order(members, trial, design.has_one), start=1):
            if _is_too_slow(records.get(index, ())):
                continue
            if loaded not in (None, index):
                members[loaded].end_calls(loaded in needed)
            loaded = index
            pids = [m.started.running.process.pid for p, m in members.items() if p != index]
            with phases.of("load", workload.WINDOW, index):
                record = members[index].window(replace(trial, order=number), pids, design)
            records.setdefault(index, []).append(record)
        for index in members.keys() & {*design.sampled}:
            if records[index][-1].problem is not None:
                continue
            with phases.of("who", who.SECONDS, index):
                found, figures = members[index].sample_stacks()
            records[index][-1] = replace(records[index][-1], who=found)
            if design.is_probe and _fails_later(records[index][-1], figures):
                with phases.of("load", workload.WINDOW, index):
                    later = members[index].window(trial, (), design)
                failing = replace(later.application.failing, worked_before=True)
                application = replace(later.application, failing=failing)
                records[index][-1] = replace(later, application=application, who=found)
        for index in members if design.is_probe else ():
            if records[index][-1].problem is None:
                with phases.of("after", 1.0):
                    records[index][-1] = _with_alone_after(records[index][-1], members[index])
        for index in members if design.reads_idle else ():
            records[index][-1] = with_idle_memory(records[index][-1], servers[index].running)
        with phases.of("stop", 1.0):
            stack.close()
    return [
        _complete(record, servers[index].running if index in members else None, phases)
        for index in cases
        for record in records[index]
    ]


def _fails_later(record: Record, later: Figures | None) -> bool:
    """Whether requests of the load after a window fail, and those of the window did not."""
    if later is None or (later.failures or 0) < FEWEST_FAILURES:
        return False
    return later.failed_share > FAILS_LATER and record.result.failed_share <= WORKED


def _start(
    stack: ExitStack,
    cases: Mapping[int, Case],
    trial: Trial,
    upstream: Upstream | UserError | None,
    with_gil: bool,
) -> tuple[dict[int, StartedServer], dict[int, list[Record]]]:
    """Launch the servers of all cases, then wait for each.

    Return the started servers, and the records of those that failed, by index.
    """
    ready_s = server.READY + READY_PER_WORKER * sum(map(count_workers, cases.values()))
    launched: dict[int, StartedServer] = {}
    failed: dict[int, list[Record]] = {}
    for index, case in cases.items():
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
            failed[index] = [
                builder.unavailable(replace(trial, case_index=index), facts, case.settings, error)
            ]
            continue
        stack.callback(server.stop, running, server.SHORT_DRAIN)
        launched[index] = StartedServer(index, case, facts, known, running)
    stack.callback(_request_stops, [started.running for started in launched.values()])
    ready: dict[int, StartedServer] = {}
    for index, started in launched.items():
        try:
            server.await_ready(started.running, started.case)
            ready[index] = started
        except UserError as error:
            failed[index] = [started.stop(trial, error)]
    return ready, failed


def _request_stops(servers: Sequence[Server]) -> None:
    """Request the stop of all servers, so that they drain at the same time."""
    for each in servers:
        server.request_stop(each)


def _make_ready(
    started: StartedServer, trial: Trial, with_gil: bool, is_known: bool
) -> ReadyServer:
    """Send the first requests to a server; `with_gil` also measures single requests."""
    url = workload.url(started.running.url, started.request)
    reported = started.running.facts
    before, flags = measure_baseline(trial, started.facts, url, started.request, reported, is_known)
    alone = SingleRequest()
    if serves_application(reported):
        before = replace(before, idle_cores=_measure_idle_cores(started.running))
    if with_gil:
        load = workload.alone(url, started.facts, before, started.request)
        alone = load_phase.measure_single_request(load, reported, before)
        _wait_until_idle(started.running, before, server.SHORT_DRAIN)
    facts = builder.server_facts(reported)
    beside = find_light_routes(started.case, url, reported, before)
    return ReadyServer(started, url, facts, before, alone, flags, beside)


def find_light_routes(
    case: Case, url: str, reported: Mapping[str, object], before: Baseline
) -> LightPaths:
    """Find the light routes of a case, which are measured beside its load."""
    known = builder.server_facts(reported)
    waits = max(1.0, case.users / known.all_workers) if known.all_workers else 1.0
    return light_route.find(case, url, reported, before, waits * (before.alone_s or 0.0))


def _measure_idle_cores(running: Server) -> float | None:
    """Return how many cores a server uses without requests; work of earlier ones soon ends."""
    tree, found = ProcessTree(running.process.pid), list[float]()
    for _ in range(IDLE_LOOKS):
        if (cores := _cores_used(tree, IDLE_S)) is None:
            return None
        found.append(cores)
        if cores <= BACKGROUND_CORES:
            break
    return round(min(found), 2)


def _wait_until_idle(running: Server, before: Baseline, longest_s: float) -> bool:
    """Wait until a server uses no CPU, at most `longest_s`; return whether it uses none."""
    try:
        tree = ProcessTree(running.process.pid)
    except StartError:  # it has ended
        return True
    ends, idle = time.monotonic() + longest_s, IDLE_CORES + (before.idle_cores or 0.0)
    while (_cores_used(tree, IDLE_EVERY_S) or 0.0) > idle:
        if time.monotonic() > ends:
            return False
    return True


def _cores_used(tree: ProcessTree, seconds: float) -> float | None:
    """Return how many cores a server's processes use now; None if it is unknown."""
    before = tree.cpu_s()
    time.sleep(seconds)
    after = tree.cpu_s()
    return None if before is None or after is None else max(0.0, after - before) / seconds


def _order(members: Mapping[int, ReadyServer], trial: Trial, has_one: bool) -> list[int]:
    """Return the indexes of the cases in random order, then in reverse; a single one only once.

    With one window per case, an even round has the reverse order of the round before.
    """
    number = trial.round or 1
    pair = (number - 1) // 2
    rng = random.Random(f"{trial.seed}-{trial.block}-{pair}")  # noqa: S311 - no secret
    order = rng.sample([*members], len(members))
    order = order if number % 2 else order[::-1]
    return order if has_one or len(order) == 1 else order + order[::-1]


def _is_too_slow(windows: Sequence[Record]) -> bool:
    """Whether the first window was too slow or stalled, so that a second one would fail, too."""
    return any(record.problem and record.problem.kind in (TOO_SLOW, STALLED) for record in windows)


def users_after_stall(stalled: Record) -> int | None:
    """Return with how many users to repeat a load whose users may only have waited for others.

    Also that of a load that collapses. It needs a new server: the requests of the first load may go
    on for long.
    """
    problem, stall = stalled.problem, stalled.application.failing.stall
    if problem is None or problem.kind != STALLED:
        return None
    pools = () if stall is None else stall.pools  # a busy server may not report
    if stalled.application.failing.own_calls or any(
        0 < pool.threads <= pool.waiting for pool in pools
    ):
        return None
    if collapses(stalled):
        return workload.MOST_FEW
    if stalled.result.completed:
        return None
    return workload.few_users(stalled.case.users, stalled.baseline.alone_s or 0.0)


def collapses(stalled: Record) -> bool:
    """Whether a load stalled with all cores in use, although single requests would end in time.

    Threads that spin while they wait for each other do this, such as those of BLAS.
    """
    users, alone_s = stalled.case.users, stalled.baseline.alone_s
    if alone_s is None or workload.few_users(users, alone_s) is not None:
        return False
    return stalled.is_cpu_full and users > workload.MOST_FEW


def _complete(record: Record, stopped: Server | None, phases: Phases) -> Record:
    """Add the facts of the stopped server, and the phases that all windows of a round share."""
    common = {name: seconds for name, seconds in phases.seconds.items() if name != "load"}
    trial = replace(record.trial, phases={**common, **record.trial.phases})
    if stopped is None:
        return replace(record, trial=trial)
    facts, left = builder.with_ending(record.server, stopped)
    return replace(record, trial=trial, server=facts, flags=record.flags + left)


class Report(Protocol):
    """Receive the name of a phase, its expected time in s, and the only case that is loaded."""

    def __call__(self, name: str, expected: float, loaded: int | None = None, /) -> object: ...


@dataclass
class Phases:
    """The duration of each phase in s; `report` is called at its start, with the expected time."""

    report: Report
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str, expected: float, loaded: int | None = None) -> Iterator[None]:
        """Time one phase, in which only the case at `loaded` in the plan is loaded."""
        self.report(name, expected, loaded)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - start, 3)


def _with_alone_after(record: Record, member: ReadyServer) -> Record:
    """Add the time of single requests after the load, and what malloc keeps free then."""
    alone_after_s, fails = member.measure_alone_after()
    baseline = replace(record.baseline, alone_after_s=alone_after_s, fails_after=fails)
    record = replace(record, baseline=baseline)
    if alone_after_s is None:  # it is not idle
        return record
    own = record.application
    malloc = server_reports.read_malloc(member.started.running.facts) or own.memory.malloc
    return replace(record, application=replace(own, memory=replace(own.memory, malloc=malloc)))


def with_idle_memory(record: Record, running: Server, started_mib: float | None = None) -> Record:
    """Add the memory of a server that is idle again, and `started_mib`, before its loads."""
    after_mib, collected_mib = measure_idle_memory(running.process.pid)
    used = record.resources
    memory = replace(
        used.memory, started_mib=started_mib, after_mib=after_mib, collected_mib=collected_mib
    )
    return replace(record, resources=replace(used, memory=memory))
