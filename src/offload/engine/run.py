"""Run a plan: measure the round, long run or open loop that is due, save it, and ask again.

    run -> ActiveRun.measure -> measure_round | long_run | measure_open_loops -> records

Every step starts new servers, because rates differ between starts of the same server.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from offload import files, loads, prctl
from offload.engine import builder, journal, light_route, load_phase, server, who, workload
from offload.engine.application import Who
from offload.engine.builder import body_flags, build_record, retry_reasons, tool_flags
from offload.engine.host import environment, measure_speed
from offload.engine.light_route import LightPaths
from offload.engine.load_phase import LoadOutcome, SingleRequest, measure_baseline
from offload.engine.plan import (
    LongRun,
    OpenLoop,
    Plan,
    Round,
    Step,
    count_workers,
    measured_times,
    round_time,
)
from offload.engine.processes import ProcessTree, measure_idle_memory
from offload.engine.progress import Progress
from offload.engine.record import (
    LONG,
    WINDOW,
    Baseline,
    CaseFacts,
    Memory,
    Record,
    ServerFacts,
    Trial,
    without_repeated_argv,
)
from offload.engine.server import Server, hold_for, needs_upstream
from offload.engine.server_reports import serves_application
from offload.errors import STALLED, TOO_SLOW, Flag, Problem, RunError, StartError, UserError
from offload.loads import Arrivals, Load, Window
from offload.registry import places
from offload.suites import Case, Request
from offload.upstream import Upstream

HeldUpstream = Upstream | UserError | None  # an error if it cannot start, None if it is not needed


def run(plan: Plan, folder: Path) -> Iterator[list[Record]]:
    """Measure each step that is due; yield all records after it.

    Raise RunError if another process measures the same run.
    """
    prctl.adopt_orphans()
    with ExitStack() as stack:
        stack.enter_context(_lock(folder))  # before reading: another process may still add records
        records = journal.read_planned_if_any(folder, plan)
        if next_step(plan, records) is None:
            return
        _warn_of_other_machine(folder, records)
        upstream = _hold_upstream(stack, plan.cases)
        progress = stack.enter_context(Progress(plan, records, folder))
        active = ActiveRun(plan, folder, upstream, records, progress)
        while (step := next_step(plan, records)) is not None:
            active.measure(step)
            yield records


def next_step(plan: Plan, records: Sequence[Record]) -> Step | None:
    """Return the retry of the last round if it has reasons and time, or else the plan's step."""
    last, reasons = _last_round(records)
    if last is not None and reasons and plan.rule.may_retry(plan, records, last):
        return replace(last, attempt=2)
    return plan.next_step(records)


def _last_round(records: Sequence[Record]) -> tuple[Round | None, Mapping[str, str]]:
    """Return the round that was measured last and not retried, and the reasons to retry it."""
    if not records or (last := records[-1].trial).kind != WINDOW or last.attempt > 1:
        return None, {}
    if last.block is None or last.round is None:
        return None, {}
    own = [r for r in records if (r.trial.block, r.trial.round) == (last.block, last.round)]
    earlier = records[: -len(own)]  # without a retry, the records of the last round are the last
    reasons: dict[str, str] = {}
    for record in own:
        reasons |= retry_reasons(record, earlier)
    return Round(last.block, last.round), reasons


@dataclass
class ActiveRun:
    """A run while it is measured; each step adds to `records`.

    `since` is the time at which the last round ended.
    """

    plan: Plan
    folder: Path
    upstream: HeldUpstream
    records: list[Record]
    progress: Progress
    since: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 - not captured

    def measure(self, step: Step) -> None:
        """Measure a step, and save its records."""
        match step:
            case Round():
                found = self._round(step)
            case LongRun():
                found = [self._long_run(step.case_index)]
            case OpenLoop():
                found = self._open_loop(step)
        self._keep(found)

    def _round(self, each: Round) -> list[Record]:
        """Measure the cases of a block together, or one after the other."""
        plan, step, retry_s = self.plan, f"round {each.number}", 0.0
        case_indexes = plan.rule.case_indexes(plan, each, self.records)
        if each.attempt > 1:
            step = f"{step}, retry"
            retry_s = round_time(plan.blocks, self.records, each.block, each.number)
            self.progress.retry([*_last_round(self.records)[1].values()])
        self.progress.begin(step, plan.title(each.block), case_indexes, retry_s)
        cases = {index: plan.cases[index] for index in case_indexes}
        block = plan.blocks[each.block]
        known = {"block": each.block, "round": each.number, "attempt": each.attempt}
        trial = self._trial(WINDOW, **known, measured_alone=block.measured_alone)
        design = MANY_ROUNDS
        if not plan.rule.has_short_rounds:
            is_steady = plan.states(self.records)[each.block].is_steady
            design = WindowDesign(is_steady, workload.LONGER_WINDOW)
        if each.number == 1:
            design = replace(design, sampled=plan.sampled)
        parts = (
            [{index: case} for index, case in cases.items()] if block.measured_alone else [cases]
        )
        found: list[Record] = []
        for part in parts:
            report, has_gil = self.progress.phase, each.number == 1
            found += measure_round(part, trial, self.upstream, report, has_gil, design)
        return self._with_other_time(found)

    def _long_run(self, index: int) -> Record:
        case = self.plan.cases[index]
        self.progress.begin("long run", case.name, [index])
        trial, upstream = self._trial(LONG, case_index=index), self._upstream_of(case)
        if isinstance(upstream, UserError):
            return _without_upstream(case, trial, upstream)
        return long_run(case, self.plan.driver or "builtin", trial, upstream, self.progress.phase)

    def _open_loop(self, step: OpenLoop) -> list[Record]:
        [case] = self.plan.cases
        self.progress.begin(f"round {step.number}", f"{case.name} at {step.rate:.4g}/s", [0])
        load_s = max(open_loop_s(step.rate), step.seconds)
        self.progress.phase("load", load_s, 0)
        arrivals = [Arrivals(step.rate, step.arrivals)]
        trial, upstream = (
            self._trial(LONG, case_index=0, round=step.number),
            self._upstream_of(case),
        )
        if isinstance(upstream, UserError):
            return [_without_upstream(case, trial, upstream)]
        warm_s = OPEN_LOOP_WARM_S
        return [*measure_open_loops(case, arrivals, trial, upstream, warm_s, duration_s=load_s)]

    def _upstream_of(self, case: Case) -> HeldUpstream:
        return self.upstream if needs_upstream(case) else None

    def _with_other_time(self, found: list[Record]) -> list[Record]:
        """Add the phase `other` to the first record: the time since `since` outside all phases."""
        now = time.monotonic()
        known_s = sum(measured_times(self.plan.blocks, found).values())
        trial, other_s = found[0].trial, round(max(0.0, now - self.since - known_s), 3)
        self.since = now
        first = replace(found[0], trial=replace(trial, phases={**trial.phases, "other": other_s}))
        return [first, *found[1:]]

    def _keep(self, found: Sequence[Record]) -> None:
        kept: list[Record] = []
        for record in found:
            more = (
                *tool_flags(record, self.plan.missing),
                *body_flags(record, self.records),
            )
            flagged = replace(record, flags=record.flags + more)
            kept.append(without_repeated_argv(flagged, [*self.records, *kept]))
        journal.append(self.folder, *kept)
        self.records.extend(kept)
        self.progress.done(kept)

    def _trial(self, kind: str, **known: int) -> Trial:
        plan = self.plan
        return builder.new_trial(
            self.folder.name,
            kind=kind,
            suite=plan.suite,
            seed=plan.seed,
            quick=plan.rule.quick,
            target=plan.rule.target,
            **known,
        )


def _without_upstream(case: Case, trial: Trial, error: UserError) -> Record:
    """Return the record of a case whose upstream could not be started."""
    return builder.unavailable(trial, builder.case_facts(case, None), case.settings, error)


def _warn_of_other_machine(folder: Path, records: Sequence[Record]) -> None:
    """Warn if a run that is resumed has records of another machine, or of more or fewer CPUs."""
    known = (record.environment for record in records if record.environment)
    found = (journal.machine_difference(each, environment()) for each in known)
    if (first := next(filter(None, found), None)) is not None:
        what = f"{folder.name} has records of another machine ({first})"
        journal.warn_once(f"{what}: its rates and verdicts mix both machines; start a new run")


def _lock(folder: Path) -> AbstractContextManager[None]:
    """Lock a run's folder, so that no other process adds records to the same run."""
    busy = f"{folder.name} is being measured by another process"
    return files.locked(folder, RunError(busy, "wait until it ends, or start a new run"))


def _hold_upstream(stack: ExitStack, cases: Sequence[Case]) -> HeldUpstream:
    """Hold the upstream; return the error if it cannot start: cases that need it report it."""
    try:
        return stack.enter_context(hold_for(*cases))
    except UserError as error:
        return error


# One round of a block: its servers start together, are loaded one after the other, and stop.
#
# start all -> first requests to each -> windows: A B C, C B A -> stop all -> records
#
# The cases have their first windows in a random order and their second ones in the reverse order,
# so that changes of the machine affect all cases alike. With one window per case, every second
# round has the reverse order of the round before. Every round starts new servers, because rates
# differ between starts of the same server. While one server is loaded, the others are idle and use
# no CPU: calls that the users of a load have left behind end before the next window.


READY_PER_WORKER = 0.5  # s that are added to the start timeout for each worker of the block
LEFTOVER_S = 15.0  # s until calls that go on after a load are given up; a guess
IDLE_CORES, IDLE_EVERY_S = 0.5, 0.03  # a server that uses less is idle; three ticks of the clock
BACKGROUND_CORES, IDLE_S, IDLE_LOOKS = 0.1, 0.1, 5  # less is none; s of a look, and most of them


@dataclass(frozen=True)
class WindowDesign:
    """The windows of each case in a round: one instead of two, and their length.

    `beside_s` is the minimum length in s of a window in a block of several servers. `sampled` are
    the indexes of the cases whose stacks are sampled after all windows. With `reads_idle` the
    memory of each server is read after all windows, before and after a garbage collection.
    `is_probe`: a load without responses stops soon.
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

    def sample_stacks(self) -> Who:
        """Sample the stacks of the server under the requests of its case."""
        started = self.started
        load = workload.load(self.url, started.facts, self.before, started.request)
        folder = places.task_folder(started.case.path)
        return who.sample_server(started.running.facts, load, folder)

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
                found = members[index].sample_stacks()
            records[index][-1] = replace(records[index][-1], who=found)
        for index in members if design.reads_idle else ():
            records[index][-1] = _with_idle_memory(records[index][-1], servers[index].running)
        with phases.of("stop", 1.0):
            stack.close()
    return [
        _complete(record, servers[index].running if index in members else None, phases)
        for index in cases
        for record in records[index]
    ]


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
    beside = _find_light_routes(started.case, url, reported, before)
    return ReadyServer(started, url, facts, before, alone, flags, beside)


def _find_light_routes(
    case: Case, url: str, reported: Mapping[str, object], before: Baseline
) -> LightPaths:
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


def few_users(stalled: Record) -> int | None:
    """Return with how many users to repeat a load whose users may only have waited for others.

    It needs a new server: the requests of the first load may go on for long.
    """
    problem, stall = stalled.problem, stalled.application.failing.stall
    if problem is None or problem.kind != STALLED or stalled.result.completed:
        return None
    pools = () if stall is None else stall.pools  # a busy server may not report
    if stalled.application.failing.own_calls or any(
        0 < pool.threads <= pool.waiting for pool in pools
    ):
        return None
    return workload.few_users(stalled.case.users, stalled.baseline.alone_s or 0.0)


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


def long_run(
    case: Case, driver: str, trial: Trial, upstream: Upstream | None, report: Report
) -> Record:
    """Load a fresh server of a case once, with the published tool and for the published time.

    If it fails, the record has a `problem`.
    """
    phases = Phases(report)
    case_facts = builder.case_facts(case, upstream)
    try:
        record = _measure(case, case_facts, driver, trial, upstream, phases)
    except UserError as error:
        record = builder.unavailable(trial, case_facts, case.settings, error)
    return replace(record, trial=replace(trial, phases=phases.seconds))


def _measure(
    case: Case,
    case_facts: CaseFacts,
    driver: str,
    trial: Trial,
    upstream: Upstream | None,
    phases: Phases,
) -> Record:
    with phases.of("start", 1.0):
        running = server.start(case, {} if upstream is None else upstream.environment())
    try:
        facts = builder.server_facts(running.facts)
        sent = case.request or Request()
        url = workload.url(running.url, sent)
        with phases.of("baseline", 1.0):
            before, baseline_flags = measure_baseline(trial, case_facts, url, sent, running.facts)
        cycle_s = workload.cycle_s(case_facts, facts, before)
        with phases.of("warm", cycle_s):
            warmed = loads.run(workload.warm_up(url, case_facts, facts, sent), "builtin").result
        if warmed.problem:
            baseline_flags += (Flag("warm-up", warmed.problem),)
        load = workload.long(url, case_facts, before, sent)
        with phases.of("load", load.seconds or cycle_s * (load.requests or 0) / load.users):
            beside = light_route.NO_PATHS
            if driver == load_phase.BUILTIN:
                beside = _find_light_routes(case, url, running.facts, before)
            loaded = load_phase.run(load, driver, running.facts, upstream, beside=beside)
    finally:
        with phases.of("stop", 1.0):
            server.stop(running, server.SHORT_DRAIN)
    facts, left = builder.with_ending(builder.with_gil(facts, loaded.gil_state), running)
    record = build_record(trial, case_facts, facts, before, SingleRequest(), loaded, baseline_flags)
    return replace(record, flags=record.flags + left)


SHORTEST, LONGEST = 4.0, 10.0  # duration of one load in s
RESPONSES = 200  # minimum number of responses in a load, unless it would exceed LONGEST
OPEN_LOOP_WARM_S = (
    0.5  # s at the start that are not counted: workers and connections start; a guess
)
TIMEOUT = 2.0  # times the duration: the queue at twice the capacity is a result and no failure
CONNECTIONS = 256  # upper limit: an open loop opens as many connections as it needs


def open_loop_s(rate: float) -> float:
    """Return the duration in s of a load with `rate` requests/s."""
    return min(LONGEST, max(SHORTEST, RESPONSES / rate))


def measure_open_loops(
    case: Case,
    arrivals: Sequence[Arrivals],
    trial: Trial,
    upstream: Upstream | None,
    warm_s: float = 0.0,
    duration_s: float | None = None,
    connections: int = CONNECTIONS,
    timeout_s: float | None = None,
    seeds: Sequence[int] | None = None,
) -> Generator[Record]:
    """Start one server, load it with each of `arrivals`, and yield a record of each load.

    Random arrivals differ between the loads of one call, and from round to round, or are those of
    `seeds`, one for each load.
    Requests of the first `warm_s` seconds of a load are not counted. A load lasts `duration_s`, or
    if that is None, `seconds` of its rate, and opens at most `connections`; a request ends after
    `timeout_s`. The duration of the server's start is in the trial's phases. If the server does not
    start or a load fails, the last record has the problem.
    """
    facts = builder.case_facts(case, upstream)
    began = time.monotonic()
    try:
        running = server.start(case, {} if upstream is None else upstream.environment())
    except UserError as error:
        yield builder.unavailable(trial, facts, case.settings, error)
        return
    try:
        trial = replace(trial, phases={"start": round(time.monotonic() - began, 3)})
        known = builder.server_facts(running.facts)
        sent = case.request or Request()
        url = workload.url(running.url, sent)
        before, flags = measure_baseline(trial, facts, url, sent, running.facts)
        beside = _find_light_routes(case, url, running.facts, before)
        first = (trial.seed or 0) + 1000 * (trial.round or 0)
        several = seeds or range(first, first + len(arrivals))
        for number, (each, seed) in enumerate(zip(arrivals, several, strict=True)):
            lasts_s = open_loop_s(each.rate) if duration_s is None else duration_s
            load = replace(
                workload.load(url, facts, before, sent),
                users=connections,
                seconds=lasts_s,
                timeout=timeout_s or max(Load.timeout, TIMEOUT * lasts_s),
                arrivals=each,
                seed=seed,
                window=Window(warm=warm_s),
            )
            own = replace(facts, asked_rate=each.rate, seconds=load.seconds)
            loaded = load_phase.run(
                load,
                "builtin",
                running.facts,
                upstream,
                sender=case.placement.sender,
                pin=case.placement.pin,
                beside=beside,
            )
            record = build_record(trial, own, known, before, SingleRequest(), loaded, flags)
            is_last = number == len(arrivals) - 1
            yield _with_idle_memory(record, running) if is_last else record
    except UserError as error:
        yield builder.unavailable(trial, facts, case.settings, error)
    finally:
        server.stop(running, server.SHORT_DRAIN)


def _with_idle_memory(record: Record, running: Server) -> Record:
    """Add the memory of a server that is idle again."""
    after_mib, collected_mib = measure_idle_memory(running.process.pid)
    used = record.resources
    memory = replace(used.memory, after_mib=after_mib, collected_mib=collected_mib)
    return replace(record, resources=replace(used, memory=memory))
