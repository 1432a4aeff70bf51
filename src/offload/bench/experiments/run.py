"""Run a plan: measure each round, long run and open loop that is due, and save it at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from offload import files, prctl
from offload.bench.analysis import latency_capacity
from offload.bench.analysis.latency_capacity import LatencyTarget
from offload.bench.experiments.block import MANY_ROUNDS, WindowDesign, measure_round
from offload.bench.experiments.progress.display import Progress
from offload.bench.planning import (
    decision,
    planned_records,
    round_times,
    schedule,
    time_budget,
)
from offload.bench.planning.plan import Plan
from offload.bench.planning.schedule import Round
from offload.bench.records import journal, machines
from offload.bench.records.record import LONG, WINDOW, Record, Trial
from offload.bench.records.run_records import without_repeated_argv
from offload.bench.target.needed_upstream import hold_for, needs_upstream
from offload.bench.telemetry.host import environment
from offload.bench.trial import builder, flags, open_loop, workload
from offload.bench.trial.trial import long_run
from offload.errors import RunError, UserError
from offload.loads import Arrivals
from offload.suites import Case
from offload.upstream import Upstream

HeldUpstream = Upstream | UserError | None  # an error if it cannot start, None if it is not needed


def run(plan: Plan, folder: Path) -> Iterator[list[Record]]:
    """Measure what is due: rounds, long runs and open loops; yield all records after each of them.

    Raise RunError if another process measures the same run.
    """
    prctl.adopt_orphans()
    with ExitStack() as stack:
        stack.enter_context(_lock(folder))  # before reading: another process may still add records
        records = planned_records.read_if_any(folder, plan)
        if not time_budget.has_more(plan, records) and interrupted_retry(plan, records) is None:
            return
        _warn_of_other_machine(folder, records)
        upstream = _hold_upstream(stack, plan.cases)
        progress = stack.enter_context(Progress(plan, records, folder))
        active = ActiveRun(plan, folder, upstream, records, progress)
        for _ in active.rounds():
            yield records
        for _ in active.long_runs():
            yield records
        if plan.latency is not None:
            for _ in active.open_loops(plan.latency):
                yield records


@dataclass
class ActiveRun:
    """A run while it is measured; each step adds to `records`.

    The next round depends only on the plan and the records. So a resumed run measures the same
    rounds as an uninterrupted run, and a finished run measures none. `since` is the time at which
    the last round ended.
    """

    plan: Plan
    folder: Path
    upstream: HeldUpstream
    records: list[Record]
    progress: Progress
    since: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 - not captured

    def rounds(self) -> Iterator[None]:
        """Measure the rounds that are due and are expected to end within the time budget."""
        if (interrupted := interrupted_retry(self.plan, self.records)) is not None:
            self._measure(interrupted, 2)
            yield
        left_out: set[Round] = set()
        while time_budget.has_more_rounds(self.plan, self.records):
            if not (todo := schedule.due(self.plan, self.records, left_out)):
                return
            left_s, expected_s = self._times()
            for each in todo:
                if left_s is not None and expected_s[each.block] > left_s:
                    left_out.add(each)
                    continue
                if decision.is_finished(self.plan, each.block, self.records):
                    continue  # its cases have become hopeless in the meantime
                if self._measure(each, 1) and _can_retry(self.plan, self.records, each):
                    self._measure(each, 2)
                left_s, expected_s = self._times()
                yield

    def long_runs(self) -> Iterator[None]:
        """Measure the missing long runs."""
        for place in schedule.long_runs_due(self.plan, self.records):
            case = self.plan.cases[place]
            self.progress.begin("long run", case.name, [place])
            trial, upstream = self._trial(LONG, place=place), self._upstream_of(case)
            if isinstance(upstream, UserError):
                record = _without_upstream(case, trial, upstream)
            else:
                driver = self.plan.driver or "builtin"
                record = long_run(case, driver, trial, upstream, self.progress.phase)
            self._keep([record])
            yield

    def open_loops(self, target: LatencyTarget) -> Iterator[None]:
        """Search the capacity of the only case under a latency target."""
        [case] = self.plan.cases
        upstream = self._upstream_of(case)
        while (step := latency_capacity.next_step(target, self.records)) is not None:
            number, rate = step
            self.progress.begin(f"round {number}", f"{case.name} at {rate:.4g}/s", [0])
            load_s = max(open_loop.seconds(rate), latency_capacity.shortest_load_s(target))
            self.progress.phase("load", load_s, 0)
            arrivals = [Arrivals(rate, target.arrivals)]
            trial = self._trial(LONG, place=0, round=number)
            if isinstance(upstream, UserError):
                self._keep([_without_upstream(case, trial, upstream)])
            else:
                warm_s = open_loop.WARM
                loads = open_loop.measure(
                    case, arrivals, trial, upstream, warm_s, duration_s=load_s
                )
                self._keep([*loads])
            yield

    def _upstream_of(self, case: Case) -> HeldUpstream:
        return self.upstream if needs_upstream(case) else None

    def _times(self) -> tuple[float | None, Sequence[float]]:
        """Return the time that is left for rounds, and the expected time of each block's round."""
        left_s = time_budget.left_for_rounds_s(self.plan, self.records)
        return left_s, round_times.expected(self.plan, self.records)

    def _measure(self, each: Round, attempt: int) -> bool:
        """Measure one round; return whether its flags are a reason to retry it."""
        places = decision.places(self.plan, each.block, self.records)
        if self.plan.gate is not None and each.number % 2 == 0:
            places.reverse()  # alternate which side starts first, in case that has an effect
        cases = {place: self.plan.cases[place] for place in places}
        step, retry_s = f"round {each.number}", 0.0
        if attempt > 1:
            step = f"{step}, retry"
            retry_s = round_times.of_round(self.plan, self.records, each.block, each.number)
        self.progress.begin(step, self.plan.title(each.block), places, retry_s)
        is_apart = self.plan.blocks[each.block].apart
        trial = self._trial(
            WINDOW, block=each.block, round=each.number, attempt=attempt, apart=is_apart
        )
        found = self._with_other_time(self._round(cases, trial))
        reasons = _retry_reasons(found, self.records)
        self._keep(found)
        self.progress.retry(list(reasons.values()))
        return bool(reasons)

    def _with_other_time(self, found: list[Record]) -> list[Record]:
        """Add the phase `other` to the first record: the time since `since` outside all phases."""
        now = time.monotonic()
        known_s = sum(round_times.measured(self.plan, found).values())
        trial, other_s = found[0].trial, round(max(0.0, now - self.since - known_s), 3)
        self.since = now
        first = replace(found[0], trial=replace(trial, phases={**trial.phases, "other": other_s}))
        return [first, *found[1:]]

    def _round(self, cases: Mapping[int, Case], trial: Trial) -> list[Record]:
        """Measure the cases of a block together, or one after the other with `trial.apart`."""
        parts = [{place: case} for place, case in cases.items()] if trial.apart else [cases]
        with_gil = trial.round == 1
        is_steady = decision.is_steady(self.plan, trial.block or 0, self.records)
        design = WindowDesign(is_steady, workload.LONGER_WINDOW)
        if time_budget.limits_rounds(self.plan):
            design = MANY_ROUNDS
        report = self.progress.phase
        found: list[Record] = []
        for part in parts:
            found += measure_round(part, trial, self.upstream, report, with_gil, design)
        return found

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
            quick=plan.quick,
            target=plan.target,
            **known,
        )


def _without_upstream(case: Case, trial: Trial, error: UserError) -> Record:
    """Return the record of a case whose upstream could not be started."""
    return builder.unavailable(trial, builder.case_facts(case, None), case.settings, error)


def interrupted_retry(plan: Plan, records: Sequence[Record]) -> Round | None:
    """Return the round whose retry is missing because the run was interrupted before it."""
    if not records or (last := records[-1].trial).kind != WINDOW or last.attempt > 1:
        return None
    if last.block is None or last.round is None:
        return None
    each = Round(last.block, last.round)
    own = [r for r in records if (r.trial.block, r.trial.round) == (each.block, each.number)]
    earlier = records[: -len(own)]  # without a retry, the records of the last round are the last
    return each if _retry_reasons(own, earlier) and _can_retry(plan, records, each) else None


def _retry_reasons(found: Sequence[Record], earlier: Sequence[Record]) -> dict[str, str]:
    """Return the reasons to retry the round of the records `found`, by kind."""
    reasons: dict[str, str] = {}
    for record in found:
        reasons |= flags.reasons(record, earlier)
    return reasons


def _can_retry(plan: Plan, records: Sequence[Record], each: Round) -> bool:
    """Whether a case of a round is measurable, and its retry and all rounds that are due fit."""
    if not decision.places(plan, each.block, records):
        return False
    left_s = time_budget.left_for_rounds_s(plan, records)
    if left_s is None:
        return True
    times = round_times.expected(plan, records)
    others_s = sum(times[other.block] for other in schedule.due(plan, records))
    return round_times.of_round(plan, records, each.block, each.number) + others_s <= left_s


def _warn_of_other_machine(folder: Path, records: Sequence[Record]) -> None:
    """Warn if a run that is resumed has records of another machine, or of more or fewer CPUs."""
    known = (record.environment for record in records if record.environment)
    found = (machines.difference(each, environment()) for each in known)
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
