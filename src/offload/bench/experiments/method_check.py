"""Check this tool's own statistics: real visits with a known true rate, and resampling."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offload import prctl
from offload.bench.experiments.block import measure_round
from offload.bench.experiments.progress import duration
from offload.bench.records import journal, rate
from offload.bench.records.record import WINDOW, Record
from offload.bench.stats import resampling, sequential
from offload.bench.stats.resampling import ResamplingResult
from offload.bench.trial import builder
from offload.suites import Case

ACCURATE = Case("threads", "sleep_short_sync")  # its own clocks give the true rate of the pool
VARIED = Case("threads", "noop_sync")  # its visits vary more than those of most cases
ACCURATE_VISITS = sequential.NORMAL.counts[0]  # visits of ACCURATE
MAX_ERROR = 0.01  # a share of the true rate


@dataclass(frozen=True)
class CheckResult:
    """The result of one check: the measured and the required value as text, and whether it passed.

    `passed` is None if the records do not decide it.
    """

    name: str
    measured: str
    required: str
    passed: bool | None


def measure_visits(visits: int) -> Path:
    """Run `visits` visits of VARIED and a few of ACCURATE; return the folder of their records."""
    prctl.adopt_orphans()
    folder = journal.new_run("check_method")
    cases = [ACCURATE] * ACCURATE_VISITS + [VARIED] * visits
    started = time.monotonic()
    for number, case in enumerate(cases, start=1):
        made = builder.trial(folder.name, kind=WINDOW, suite="check_method", round=number)
        records = measure_round({0: case}, made, None, lambda *_: None, with_gil=False)
        journal.append(folder, *records)
        if number % 10 == 0:
            left = (time.monotonic() - started) / number * (len(cases) - number)
            print(f"{number} of {len(cases)} visits, {duration(left)} left", file=sys.stderr)
    return folder


def check_records(records: Sequence[Record], seed: int = 0) -> list[CheckResult]:
    """Check the records of `measure_visits`; the same `seed` repeats the same resampling."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    rates = [r.result.rate for r in records if r.case.task == VARIED.task and r.result.rate]
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


def _accuracy(records: Sequence[Record]) -> CheckResult:
    found = rate.of_windows(records)
    known = [true for r in records if (true := truth(r)) is not None]
    required = f"within {MAX_ERROR:.0%} of slots / mean slot time in the server"
    if found.value is None or not known:
        return CheckResult("accuracy", "unknown", required, None)
    true = sum(known) / len(known)
    error = found.value / true - 1
    measured = f"{found.value:.3f}/s, truth {true:.3f}/s: {error:+.2%}"
    return CheckResult("accuracy", measured, required, abs(error) <= MAX_ERROR)


def _check_hits(name: str, found: ResamplingResult, required: str) -> CheckResult:
    interval = f"{found.low:.1%} to {found.high:.1%}"
    measured = f"{found.hits} of {found.trials} ({interval})"
    return CheckResult(name, measured, required, found.passed)
