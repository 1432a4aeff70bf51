"""A run: every visit that is due, one at a time, each on disk before the next starts."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from offload import prctl
from offload.bench.experiments.progress import Progress
from offload.bench.records import journal, schedule
from offload.bench.records.plan import Plan
from offload.bench.records.record import VISIT, Record
from offload.bench.records.schedule import Due
from offload.bench.target.needed_upstream import hold_for, needs_upstream
from offload.bench.trial import builder, flags
from offload.bench.trial.trial import visit
from offload.errors import RunError, UserError
from offload.suites import Case
from offload.upstream import Upstream


def run(plan: Plan, folder: Path) -> Iterator[list[Record]]:
    """Make all visits of a plan that its folder lacks; yield all records after each visit.

    Raises RunError when another process works on the same run.
    """
    prctl.adopt_orphans()
    records = journal.read(folder) if (folder / journal.FILE).exists() else []
    with ExitStack() as stack:
        stack.enter_context(_alone(folder))
        todo = schedule.due(plan, records)
        if not todo:
            return
        held = _hold(stack, plan.cases)
        progress = stack.enter_context(Progress(plan, todo, records))
        while todo:
            for place, due in enumerate(todo):
                progress.begin(due, todo[place:])
                needed = held if needs_upstream(due.case) else None
                for record in _made(plan, folder, due, needed, records, progress):
                    journal.append(folder, record)
                    records.append(record)
                    progress.done(record)
                yield records
            todo = schedule.due(plan, records)


def _made(
    plan: Plan,
    folder: Path,
    due: Due,
    needed: Upstream | UserError | None,
    earlier: Sequence[Record],
    progress: Progress,
) -> Iterator[Record]:
    """Make one visit, and retry it once if its flags are a reason to."""
    driver = "builtin" if due.kind == VISIT else plan.driver or "builtin"
    for attempt in (1, 2):
        known = None if isinstance(needed, UserError) else needed
        made = builder.trial(
            folder.name,
            kind=due.kind,
            suite=plan.suite,
            seed=plan.seed,
            round=due.round,
            order=due.order,
            attempt=attempt,
            quick=plan.quick,
            target=plan.target,
        )
        if isinstance(needed, UserError):
            facts = builder.case_facts(due.case, None)
            record = builder.unavailable(made, facts, due.case.settings, needed)
        else:
            record = visit(due.case, driver, made, known, progress.phase, gil=due.round == 1)
        doubts = (*flags.of_tool(record, plan.missing), *flags.of_bodies(record, earlier))
        record = replace(record, flags=record.flags + doubts)
        yield record
        reasons = flags.reasons(record, earlier) if due.kind == VISIT else []
        if not reasons:
            return
        progress.again(reasons)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a run's folder, so that no second process adds to the same run."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = f"{folder.name} is being measured by another process"
            raise RunError(f"{busy}: wait for its end, or begin a run of your own") from None
        yield
    finally:
        os.close(descriptor)


def _hold(stack: ExitStack, cases: Sequence[Case]) -> Upstream | UserError | None:
    """Hold the upstream, or return the reason why the rows that need it have no figures."""
    try:
        return stack.enter_context(hold_for(*cases))
    except UserError as error:
        return error
