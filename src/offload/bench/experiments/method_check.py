"""The method judged: real visits whose truth is known, and what is made of them by resampling."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offload import prctl
from offload.bench.experiments.progress import duration
from offload.bench.records import journal, rate
from offload.bench.records.record import VISIT, Record
from offload.bench.stats import resampling, sequential
from offload.bench.stats.resampling import Judged
from offload.bench.trial import builder
from offload.bench.trial.trial import visit
from offload.suites import Case

ACCURATE = Case("threads", "sleep_short_sync")  # a pool whose truth its own clocks tell
VARIED = Case("threads", "noop_sync")  # whose visits vary as much as any
EACH = sequential.NORMAL.counts[0]  # visits of ACCURATE
ERROR = 0.01  # of the truth


@dataclass(frozen=True)
class Claim:
    """One property of the method: what was found, what is asked for, and whether that is met.

    `passed` None: the records do not tell.
    """

    name: str
    found: str
    asked: str
    passed: bool | None


def measure(visits: int) -> Path:
    """Make `visits` visits of one case and some of another; give the folder of their records."""
    prctl.adopt_orphans()
    folder = journal.new_run("check_method")
    cases = [ACCURATE] * EACH + [VARIED] * visits
    began = time.monotonic()
    for number, case in enumerate(cases, start=1):
        made = builder.trial(folder.name, kind=VISIT, suite="check_method", round=number)
        record = visit(case, "builtin", made, None, lambda *_: None)
        journal.append(folder, record)
        if number % 10 == 0:
            left = (time.monotonic() - began) / number * (len(cases) - number)
            print(f"{number} of {len(cases)} visits, {duration(left)} left", file=sys.stderr)
    return folder


def judge_all(records: Sequence[Record], seed: int = 0) -> list[Claim]:
    """Judge the records of `measure`; the resampling is repeated alike with the same `seed`."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    rates = [r.result.rate for r in records if r.case.task == VARIED.task and r.result.rate]
    pairs = list(zip(rates[::2], rates[1::2], strict=False))  # neighbours in time
    return [
        _accuracy([r for r in records if r.case.task == ACCURATE.task]),
        _claim("coverage", resampling.coverage(rates, rng=rng), "an interval that contains 95 %"),
        _claim("A/A", resampling.aa(pairs, rng=rng), "an interval that contains 5 % or less"),
        _claim("power", resampling.power(pairs, rng=rng), "90 % of differences of 10 % found"),
    ]


def truth(record: Record) -> float | None:
    """Give what a saturated pool must have served in a visit's window: slots / mean slot time."""
    if record.tasks.slots is None or not record.tasks.slot_s:
        return None
    return record.tasks.slots / record.tasks.slot_s


def _accuracy(records: Sequence[Record]) -> Claim:
    found = rate.of_visits(records)
    known = [true for r in records if (true := truth(r)) is not None]
    asked = f"within {ERROR:.0%} of slots / mean slot time in the server"
    if found.value is None or not known:
        return Claim("accuracy", "not known", asked, None)
    true = sum(known) / len(known)
    error = found.value / true - 1
    words = f"{found.value:.3f}/s, truth {true:.3f}/s: {error:+.2%}"
    return Claim("accuracy", words, asked, abs(error) <= ERROR)


def _claim(name: str, found: Judged, asked: str) -> Claim:
    interval = f"{found.low:.1%} to {found.high:.1%}"
    words = f"{found.hits} of {found.trials} ({interval})"
    return Claim(name, words, asked, found.passed)
