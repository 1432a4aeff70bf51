"""Run a plan: measure the round, long run or open loop that is due, save it, and ask again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from offload import files, prctl
from offload.bench.experiments.block import MANY_ROUNDS, WindowDesign, measure_round
from offload.bench.experiments.progress.display import Progress
from offload.bench.trial import builder, flags, open_loop, workload
from offload.bench.trial.trial import long_run
from offload.engine import journal
from offload.engine.host import environment
from offload.engine.plan import LongRun, OpenLoop, Plan, Round, Step, measured_times, round_time
from offload.engine.record import LONG, WINDOW, Record, Trial, without_repeated_argv
from offload.engine.server import hold_for, needs_upstream
from offload.errors import RunError, UserError
from offload.loads import Arrivals
from offload.suites import Case
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
        reasons |= flags.reasons(record, earlier)
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
                found = [self._long_run(step.place)]
            case OpenLoop():
                found = self._open_loop(step)
        self._keep(found)

    def _round(self, each: Round) -> list[Record]:
        """Measure the cases of a block together, or one after the other if they run apart."""
        plan, step, retry_s = self.plan, f"round {each.number}", 0.0
        places = plan.rule.places(plan, each, self.records)
        if each.attempt > 1:
            step = f"{step}, retry"
            retry_s = round_time(plan.blocks, self.records, each.block, each.number)
            self.progress.retry([*_last_round(self.records)[1].values()])
        self.progress.begin(step, plan.title(each.block), places, retry_s)
        cases = {place: plan.cases[place] for place in places}
        block = plan.blocks[each.block]
        known = {"block": each.block, "round": each.number, "attempt": each.attempt}
        trial = self._trial(WINDOW, **known, apart=block.apart)
        design = MANY_ROUNDS
        if not plan.rule.has_short_rounds:
            is_steady = plan.states(self.records)[each.block].is_steady
            design = WindowDesign(is_steady, workload.LONGER_WINDOW)
        parts = [{place: case} for place, case in cases.items()] if block.apart else [cases]
        found: list[Record] = []
        for part in parts:
            report, has_gil = self.progress.phase, each.number == 1
            found += measure_round(part, trial, self.upstream, report, has_gil, design)
        return self._with_other_time(found)

    def _long_run(self, place: int) -> Record:
        case = self.plan.cases[place]
        self.progress.begin("long run", case.name, [place])
        trial, upstream = self._trial(LONG, place=place), self._upstream_of(case)
        if isinstance(upstream, UserError):
            return _without_upstream(case, trial, upstream)
        return long_run(case, self.plan.driver or "builtin", trial, upstream, self.progress.phase)

    def _open_loop(self, step: OpenLoop) -> list[Record]:
        [case] = self.plan.cases
        self.progress.begin(f"round {step.number}", f"{case.name} at {step.rate:.4g}/s", [0])
        load_s = max(open_loop.seconds(step.rate), step.seconds)
        self.progress.phase("load", load_s, 0)
        arrivals = [Arrivals(step.rate, step.arrivals)]
        trial, upstream = self._trial(LONG, place=0, round=step.number), self._upstream_of(case)
        if isinstance(upstream, UserError):
            return [_without_upstream(case, trial, upstream)]
        warm_s = open_loop.WARM
        return [*open_loop.measure(case, arrivals, trial, upstream, warm_s, duration_s=load_s)]

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
                *flags.of_tool(record, self.plan.missing),
                *flags.of_bodies(record, self.records),
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
