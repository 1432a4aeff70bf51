"""Check this tool's statistics against a known truth, with measured blocks and by resampling."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from lab.method import resampling
from lab.method.resampling import MAX_FALSE_POSITIVES, MIN_POWER, ResamplingResult
from offload import prctl
from offload.engine import builder, intervals, journal, plan
from offload.engine.decisions import DISTURBED, FASTER, SLOWER
from offload.engine.figures import compare_windows, estimate_rate
from offload.engine.plan import Block, Plan, Sequential
from offload.engine.progress import duration
from offload.engine.record import WINDOW, Record, RunRecords
from offload.engine.rounds import measure_round
from offload.errors import RunError
from offload.suites import Case
from offload.units import percent

SUITE = "check_method"
ACCURATE = Case("threads", "sleep_short_sync")  # the server's clocks show the true rate
VARIED = Case("threads", "noop_sync")  # its rate varies more than that of most cases
ACCURATE_ROUNDS = intervals.NORMAL.counts[0]  # rounds of ACCURATE
FEWEST = 10  # rounds of VARIED that are needed for resampling
MAX_ERROR = 0.01  # a share of the true rate
USERS = 8  # enough to keep all workers busy
TASKS = ("sleep_short_sync", "network_sync_local", "count_sync")  # compared with themselves
KNOWN = ("count_slower_sync", "count_sync")  # the second one is faster by 20 %


@dataclass(frozen=True)
class CheckResult:
    """The result of one check: the measured and the required value as text, and whether it passed.

    `passed` is None if the records do not suffice, or if `is_disturbed`: other processes disturbed
    the measurements. If not `is_required`, the value is only reported, and `passed` is None.
    """

    name: str
    measured: str
    required: str
    passed: bool | None
    is_disturbed: bool = False
    is_required: bool = True


def blocks_plan(count: int) -> Plan:
    """Return a plan of `count` blocks of a case and itself, and half as many blocks of KNOWN."""
    tasks = [*(task for task in TASKS for _ in range(2)), *KNOWN]
    cases = tuple(Case("threads", task, users=USERS) for task in tasks)
    pairs = [(first, first + 1) for first in range(0, len(cases), 2)]
    *same, known = (Block(pair, (pair,)) for pair in pairs)
    blocks = (*islice(cycle(same), count), *[known] * (count // 2))
    return Plan(SUITE, cases, plan.new_seed(), None, Sequential(quick=True), blocks=blocks)


def measure_alone(folder: Path, count: int) -> None:
    """Measure the missing rounds of VARIED, `count` in total, and of ACCURATE, without a block."""
    prctl.adopt_orphans()
    done = [record.case.task for record in alone(journal.read(folder))] if _exists(folder) else []
    wanted = [(ACCURATE, ACCURATE_ROUNDS), (VARIED, count)] if count else []
    missing = [case for case, number in wanted for _ in range(number - done.count(case.task))]
    started = time.monotonic()
    for number, case in enumerate(missing, start=1):
        trial = builder.new_trial(folder.name, kind=WINDOW, suite=SUITE, round=len(done) + number)
        records = measure_round({0: case}, trial, None, lambda *_: None, with_gil=False)
        journal.append(folder, *records)
        if number % 10 == 0:
            left = (time.monotonic() - started) / number * (len(missing) - number)
            line = f"{number} of {len(missing)} rounds of one server, {duration(left)} left"
            print(line, file=sys.stderr, flush=True)


def alone(records: Sequence[Record]) -> list[Record]:
    """Return the records of `measure_alone`, which belong to no block of the plan."""
    return [record for record in records if record.trial.block is None]


def check_blocks(planned: Plan, records: Sequence[Record]) -> list[CheckResult]:
    """Check the verdicts of the blocks of `blocks_plan`, without disturbed verdicts."""
    same: list[str] = []
    known: list[str] = []
    for number, block in enumerate(planned.blocks):
        own = RunRecords([record for record in records if record.trial.block == number])
        first, second = (own.at(case_index).windows() for case_index in block.cases)
        verdict = compare_windows(first, second).verdict
        if verdict.low is not None:
            is_known = planned.cases[block.cases[0]].task == KNOWN[0]
            (known if is_known else same).append(verdict.outcome)
    return [
        _check_outcomes("A/A, blocks", same, (FASTER, SLOWER)),
        _check_outcomes("power, blocks", known, (FASTER,)),
    ]


def _check_outcomes(name: str, outcomes: Sequence[str], hits: Sequence[str]) -> CheckResult:
    """Check the number of hits: false positives, or true positives if SLOWER is not a hit."""
    is_power = SLOWER not in hits
    required = "an interval that contains 5 % or less"
    if is_power:
        required = f"{percent(MIN_POWER)} of differences of 20 % found"
    counted = [outcome for outcome in outcomes if outcome != DISTURBED]
    disturbed = len(outcomes) - len(counted)
    excluded = f", {disturbed} disturbed" if disturbed else ""
    if not counted:
        return CheckResult(name, f"unknown{excluded}", required, None, disturbed > 0)
    found = sum(outcome in hits for outcome in counted)
    low, high = intervals.binomial_interval(found, len(counted))
    passed = found >= MIN_POWER * len(counted) if is_power else low <= MAX_FALSE_POSITIVES
    measured = f"{found} of {len(counted)} ({percent(low, 1)} to {percent(high, 1)}){excluded}"
    return CheckResult(name, measured, required, passed)


def check_alone(records: Sequence[Record], seed: int = 0) -> list[CheckResult]:
    """Check the records of `measure_alone`; the same `seed` repeats the same resampling.

    Raise RunError for too few of them.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    rates = [r.result.rate for r in records if r.case.task == VARIED.task and r.result.rate]
    if len(rates) < FEWEST:
        hint = f"python -m lab check_method run={records[0].trial.run} rounds=300"
        raise RunError(f"{len(rates)} rounds of one server are too few: add some by {hint}")
    pairs = list(zip(rates[::2], rates[1::2], strict=False))  # neighbours in time
    return [
        _accuracy([r for r in records if r.case.task == ACCURATE.task]),
        _check_hits(
            "coverage",
            resampling.coverage(rates, rng=rng),
            "an interval that contains 95 % or more",
        ),
        _check_hits(
            "A/A", resampling.aa_test(pairs, rng=rng), "an interval that contains 5 % or less"
        ),
        _check_hits("power", resampling.power(pairs, rng=rng), "90 % of differences of 10 % found"),
    ]


def truth(record: Record) -> float | None:
    """Return the true rate of a saturated pool in requests/s: slots / mean slot time."""
    if record.tasks.slots is None or not record.tasks.slot_s:
        return None
    return record.tasks.slots / record.tasks.slot_s


def _exists(folder: Path) -> bool:
    return journal.exists(folder)


def _accuracy(records: Sequence[Record]) -> CheckResult:
    found = estimate_rate(records)
    known = [true for r in records if (true := truth(r)) is not None]
    required = f"within {percent(MAX_ERROR)} of slots / mean slot time in the server"
    if found.value is None or not known:
        return CheckResult("accuracy", "unknown", required, None)
    true = sum(known) / len(known)
    error = found.value / true - 1
    measured = f"{found.value:.3f}/s, truth {true:.3f}/s: {percent(error, 2, '+')}"
    return CheckResult("accuracy", measured, required, abs(error) <= MAX_ERROR)


def _check_hits(name: str, found: ResamplingResult, required: str) -> CheckResult:
    interval = f"{percent(found.low, 1)} to {percent(found.high, 1)}"
    measured = f"{found.hits} of {found.trials} ({interval})"
    return CheckResult(name, measured, required, found.passed)
