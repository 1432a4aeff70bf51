"""A run of advice for an application: its blocks of servers, its records and its time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from offload.bench.advice.application import choice, sizes
from offload.bench.advice.application.answer import ApplicationAnswer
from offload.bench.advice.application.question_file import Question
from offload.bench.advice.candidates import FIXED_ROUND_S, FIXED_WINDOW_S, SUITE
from offload.bench.analysis import comparison
from offload.bench.experiments.block import MANY_ROUNDS, measure_round
from offload.bench.experiments.progress import progress_file
from offload.bench.planning import plan as plans
from offload.bench.planning import plan_file
from offload.bench.planning.plan import Plan
from offload.bench.records import journal
from offload.bench.records.record import WINDOW, Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats import sequential
from offload.bench.stats.paired_test import UNRESOLVED
from offload.bench.trial import builder
from offload.suites import Case

START_S = 0.5  # assumed CPU time in s to start a process

Report = Callable[[str], object]


@dataclass
class AdviceRun:
    """A run in progress: its cases, its records, and the time at which it must end.

    `case` is the application with an arbitrary server, and `cases` are the servers and sizes that
    were measured. `ends` is in s of time.monotonic(), and `reserved_s` the part of the time before
    it that rounds cannot use: it is for the response times. `report` is called with a short text
    before each step. `blocks` is the number of the last block.
    """

    question: Question
    case: Case
    folder: Path
    report: Report
    ends: float
    reserved_s: float = 0.0
    seed: int = field(default_factory=plans.new_seed)
    cases: list[Case] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    blocks: int = 0
    useful_processes: int = 1  # up to this number, the rate is expected to increase
    most_processes: int = sizes.MOST_PROCESSES  # that fit into the memory

    @property
    def plan(self) -> Plan:
        """The plan of the cases so far; it has no blocks, so it cannot be resumed."""
        return Plan(SUITE, tuple(self.cases), self.seed, None, True)

    @property
    def rounds_end(self) -> float:
        """The time at which rounds must end, in s of time.monotonic()."""
        return self.ends - self.reserved_s

    @property
    def left_s(self) -> float:
        """The time left for rounds in s; below 0 after it."""
        return self.rounds_end - time.monotonic()

    def add_case(self, case: Case) -> int:
        """Add a case to the plan unless it is there; return its place."""
        if case not in self.cases:
            self.cases.append(case)
            plan_file.save(self.plan, self.folder)
        return self.cases.index(case)

    def announce(self, step: str, cases: Sequence[Case]) -> None:
        """Write the progress for the live page: the step, and the cases that it measures."""
        ends = time.time() + max(0.0, self.ends - time.monotonic())
        progress = progress_file.own(step, "load", ends, ends)
        places = tuple(self.add_case(case) for case in cases)
        progress_file.write(self.folder, replace(progress, places=places))

    def keep(self, found: Sequence[Record]) -> None:
        """Save records and add them to the run."""
        journal.append(self.folder, *found)
        self.records.extend(found)

    def evaluate(self) -> ApplicationAnswer:
        """Return the answer from the records so far."""
        return choice.evaluate(self.question, self.plan, self.records)


def measure_block(run: AdviceRun, cases: Sequence[Case], ends: float, most_rounds: int) -> None:
    """Measure rounds of cases until each ratio to the first case has a verdict, or until `ends`."""
    run.blocks += 1
    block, took = run.blocks, 0.0
    for number in range(1, most_rounds + 1):
        if number > 1 and time.monotonic() + took > ends:
            return
        started = time.monotonic()
        measure_cases(run, cases, block, number, with_gil=False)
        took = time.monotonic() - started
        if sequential.QUICK.is_analysis(number) and _has_verdicts(run, cases, block, number):
            return
        left = max(0.0, run.left_s)
        run.report(f"round {number}: {_rates(run, cases, block)}; {as_seconds(left)} left")


def measure_cases(
    run: AdviceRun, cases: Sequence[Case], block: int, number: int, with_gil: bool
) -> list[Record]:
    """Measure one round of cases side by side, and keep its records."""
    at = {run.add_case(case): case for case in cases}
    run.announce(f"round {number}, {len(cases)} server{'s' if len(cases) > 1 else ''}", cases)
    trial = builder.new_trial(
        run.folder.name,
        kind=WINDOW,
        suite=SUITE,
        block=block,
        round=number,
        seed=run.seed,
        quick=True,
    )
    found = measure_round(at, trial, None, lambda *_: None, with_gil, MANY_ROUNDS)
    run.keep(found)
    return found


def _has_verdicts(run: AdviceRun, cases: Sequence[Case], block: int, rounds: int) -> bool:
    level = sequential.QUICK.stopping_level(rounds)
    windows = [_windows(run, case, block) for case in cases]
    found = [comparison.compare(windows[0], other, level=level) for other in windows[1:]]
    return all(each.verdict.outcome != UNRESOLVED for each in found)


def _rates(run: AdviceRun, cases: Sequence[Case], block: int) -> str:
    """Format the rates of the last round for a line of progress."""
    shown = []
    for case in cases:
        last = _windows(run, case, block)[-1:]
        rate = last[0].result.rate if last else None
        shown.append(f"{short_name(case)} {'no rate' if rate is None else f'{rate:.4g}/s'}")
    return ", ".join(shown)


def _windows(run: AdviceRun, case: Case, block: int) -> list[Record]:
    found = RunRecords(run.records).at(run.add_case(case)).windows()
    return [record for record in found if record.trial.block == block]


def short_name(case: Case) -> str:
    """Return the server and its size, such as `granian_wsgi 2x4`."""
    size = sizes.size_of(case)
    return f"{case.server} {size.processes}{'' if size.threads is None else f'x{size.threads}'}"


def affordable(
    run: AdviceRun, cases: Sequence[Case], probe: Record, left_s: float, rounds: int
) -> list[Case]:
    """Return as many of the first cases as fit into `left_s` with `rounds` rounds, at least two."""
    kept = [*{case.key: case for case in cases}.values()][: sizes.MOST_SERVERS]
    while len(kept) > 2 and rounds * round_s(run, kept, probe) > left_s:
        kept.pop()
    return kept


def round_s(run: AdviceRun, cases: Sequence[Case], probe: Record) -> float:
    """Return the expected time of a round in s."""
    counts = [sizes.size_of(case).processes for case in cases]
    users, rate = run.question.users, probe.result.rate or 1.0
    most = max(run.useful_processes, run.question.cores)
    # Servers are assumed to be at least as fast as the probe. Each window starts and ends with as
    # many responses as there are users.
    windows_s = sum(FIXED_WINDOW_S + 2 * users / (rate * min(count, most)) for count in counts)
    return FIXED_ROUND_S + START_S * sum(counts) / run.question.cores + windows_s


def as_seconds(value: float) -> str:
    """Format a duration in s for a line of progress."""
    return f"{max(0.0, value):.0f} s"
