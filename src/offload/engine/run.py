"""Run a plan: measure the round, long run or open loop that is due, save it, and ask again.

    run -> ActiveRun.measure -> measure_round | long_run | measure_open_loops -> records

Every step starts new servers, because rates differ between starts of the same server.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from offload import files, loads
from offload.engine import builder, journal, light_route, load_phase, server, workload
from offload.engine.builder import body_flags, build_record, retry_reasons, tool_flags
from offload.engine.host import environment
from offload.engine.load_phase import SingleRequest, measure_baseline
from offload.engine.plan import (
    LongRun,
    OpenLoop,
    Plan,
    Round,
    Step,
    measured_times,
    round_time,
)
from offload.engine.processes import ProcessTree
from offload.engine.progress import Progress
from offload.engine.record import (
    LONG,
    WINDOW,
    CaseFacts,
    Record,
    Trial,
    without_repeated_argv,
)
from offload.engine.rounds import (
    MANY_ROUNDS,
    Phases,
    Report,
    WindowDesign,
    find_light_routes,
    measure_round,
    with_idle_memory,
)
from offload.engine.server import hold_for, needs_upstream
from offload.errors import Flag, RunError, UserError
from offload.loads import Arrivals, Load, Window
from offload.suites import Case, Request
from offload.upstream import Upstream

HeldUpstream = Upstream | UserError | None  # an error if it cannot start, None if it is not needed


def run(plan: Plan, folder: Path) -> Iterator[list[Record]]:
    """Measure each step that is due; yield all records after it.

    Raise RunError if another process measures the same run.
    """
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
                beside = find_light_routes(case, url, running.facts, before)
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
AT_ONCE = 8  # requests for each process, of which each has at least one then; a guess
CONNECTIONS = 256  # upper limit: an open loop opens as many connections as it needs


def open_loop_s(rate: float) -> float:
    """Return the duration in s of a load with `rate` requests/s."""
    return min(LONGEST, max(SHORTEST, RESPONSES / rate))


def _warm_processes(url: str, sent: Request, count: int) -> None:
    """Send `count` requests at once, so that each process has its first one before a load.

    A load at a fixed rate would wait for these first ones. Failures do not matter.
    """

    def send(_: int) -> None:
        with suppress(UserError):
            workload.get(url, sent, workload.TIMEOUT_S)

    with ThreadPoolExecutor(count) as pool:
        for _ in pool.map(send, range(count)):
            pass


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
        if before.prepares_s:
            count = len(ProcessTree(running.process.pid).members)
            _warm_processes(url, sent, AT_ONCE * count)
        beside = find_light_routes(case, url, running.facts, before)
        started_mib = ProcessTree(running.process.pid).memory()["memory_whole_mib"]
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
            yield with_idle_memory(record, running, started_mib) if is_last else record
    except UserError as error:
        yield builder.unavailable(trial, facts, case.settings, error)
    finally:
        server.stop(running, server.SHORT_DRAIN)
