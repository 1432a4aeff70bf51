"""The method judged: real visits whose truth is known, and what is made of them by resampling."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from offload.bench.experiments.progress import duration
from offload.bench.records import journal, rate
from offload.bench.records.record import VISIT, Record
from offload.bench.stats import resampling, sequential
from offload.bench.stats.resampling import ResamplingResult
from offload.bench.target import server
from offload.bench.trial import builder
from offload.bench.trial.trial import visit
from offload.suites import Case

ACCURATE = Case("threads", "sleep_short_sync")  # a pool whose truth its own clocks tell
VARIED = Case("threads", "noop_sync")  # whose visits vary as much as any
EACH = sequential.NORMAL.counts[0]  # visits of ACCURATE
ERROR = 0.01  # of the truth


@dataclass(frozen=True)
class CheckResult:
    """One property of the method: what was found, what is required for, and whether that is met.

    `passed` None: the records do not tell.
    """

    name: str
    measured: str
    required: str
    passed: bool | None


def measure_visits(visits: int) -> Path:
    """Make `visits` visits of one case and some of another; give the folder of their records."""
    server.adopt_orphans()
    folder = journal.new_run("check_method")
    cases = [ACCURATE] * EACH + [VARIED] * visits
    began = time.monotonic()
    for number, case in enumerate(cases, start=1):
        record = replace(builder.new(case, folder.name, None), kind=VISIT, suite="check_method")
        record = visit(case, "builtin", replace(record, round=number), None, lambda *_: None)
        journal.append(folder, record)
        if number % 10 == 0:
            left = (time.monotonic() - began) / number * (len(cases) - number)
            print(f"{number} of {len(cases)} visits, {duration(left)} left", file=sys.stderr)
    return folder


def check_records(records: Sequence[Record], seed: int = 0) -> list[CheckResult]:
    """Judge the records of `measure`; the resampling is repeated alike with the same `seed`."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    rates = [r.rate for r in records if r.task == VARIED.task and r.rate]
    pairs = list(zip(rates[::2], rates[1::2], strict=False))  # neighbours in time
    return [
        _accuracy([r for r in records if r.task == ACCURATE.task]),
        _check_hits(
            "coverage", resampling.coverage(rates, rng=rng), "an interval that contains 95 %"
        ),
        _check_hits(
            "A/A", resampling.aa_test(pairs, rng=rng), "an interval that contains 5 % or less"
        ),
        _check_hits("power", resampling.power(pairs, rng=rng), "90 % of differences of 10 % found"),
    ]


def truth(record: Record) -> float | None:
    """Give what a saturated pool must have served in a visit's window: slots / mean slot time."""
    if record.slots is None or not record.slot_s:
        return None
    return record.slots / record.slot_s


def _accuracy(records: Sequence[Record]) -> CheckResult:
    found = rate.of_visits(records)
    known = [true for r in records if (true := truth(r)) is not None]
    required = f"within {ERROR:.0%} of slots / mean slot time in the server"
    if found.value is None or not known:
        return CheckResult("accuracy", "not known", required, None)
    true = sum(known) / len(known)
    error = found.value / true - 1
    words = f"{found.value:.3f}/s, truth {true:.3f}/s: {error:+.2%}"
    return CheckResult("accuracy", words, required, abs(error) <= ERROR)


def _check_hits(name: str, found: ResamplingResult, required: str) -> CheckResult:
    interval = f"{found.low:.1%} to {found.high:.1%}"
    words = f"{found.hits} of {found.trials} ({interval})"
    return CheckResult(name, words, required, found.passed)
