"""A comparison: two cases on live servers, loaded in alternating slices until there is a verdict.

The two slices of a pair follow each other, so that a disturbance of both cancels out. After each
analysis both servers are restarted, so that no single start decides.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from offload import prctl
from offload.bench.experiments import progress
from offload.bench.experiments.live import Live, live
from offload.bench.experiments.pace import Pace
from offload.bench.records import journal, plan
from offload.bench.records.record import Record
from offload.bench.stats import paired_test, sequential
from offload.bench.stats.paired_test import Verdict
from offload.bench.target import server
from offload.errors import RunError, UserError
from offload.suites import Case

SLICE = 1.0  # s, at least, and one answer per user
EFFECT, ROUGH = paired_test.EFFECT, 0.05  # the smallest difference that matters; ROUGH with quick
LOST = 3  # pairs without two rates, after which a comparison is given up


@dataclass(frozen=True)
class Comparison:
    """The result of `other` against `one`: a ratio above 1 means that `other` is faster."""

    one: Case
    other: Case
    verdict: Verdict
    records: tuple[Record, ...]
    folder: Path


def compare(one: Case, other: Case, is_quick: bool = False) -> Comparison:
    """Compare two cases in a run of their own; raise RunError when too many pairs have no rates."""
    with run_of("compare", one, other) as folder:
        return pairs_of(one, other, folder, is_quick)


@contextmanager
def run_of(name: str, *cases: Case) -> Iterator[Path]:
    """Create the folder of a run of cases; remove it if the run ends without a record.

    Raise UserError for a case that cannot be started before there is a folder; a later error names
    the folder of the records so far.
    """
    for case in cases:
        server.command(case, port=0)
    prctl.adopt_orphans()
    folder = journal.new_run(name)
    try:
        yield folder
    except UserError as error:
        if journal.count(folder):
            raise type(error)(f"{error}; records: {folder}") from error
        raise
    finally:
        with suppress(OSError):  # it has records
            folder.rmdir()


def pairs_of(
    one: Case, other: Case, folder: Path, is_quick: bool, most: int = sequential.PAIRS.last
) -> Comparison:
    """Compare two cases by at most so many pairs, into a folder; raise RunError as `compare`."""
    seed = plan.new_seed()
    rng = random.Random(seed)  # noqa: S311 - no secret
    pairs: list[tuple[float, float]] = []
    records: list[Record] = []
    pace = Pace(one, other, pairs)
    effect = ROUGH if is_quick else EFFECT
    found = paired_test.compare([], effect=effect)
    for look in (count for count in sequential.PAIRS.counts if count <= most):
        with ExitStack() as stack:
            servers = [
                stack.enter_context(live(case, folder.name, "compare")) for case in (one, other)
            ]
            pace.begin(look, most, servers, SLICE)
            stack.enter_context(progress.live(pace.line))
            lost = 0
            while len(pairs) < look:
                both = _pair(servers, len(pairs) + 1, seed, rng.random() < 0.5)
                for record in both:
                    journal.append(folder, record)
                records += both
                first, second = both[0].result.rate, both[1].result.rate
                if first and second:
                    pairs.append((first, second))
                    continue
                lost += 1
                if lost >= LOST:
                    why = next(
                        (str(r.problem) for r in both if r.problem), "no request was completed"
                    )
                    raise RunError(f"{LOST} pairs without two rates: {why}")
        found = paired_test.compare(pairs, effect=effect)
        pace.tell(found)
        if found.outcome != paired_test.UNRESOLVED:
            break
    return Comparison(one, other, found, tuple(records), folder)


def _pair(both: Sequence[Live], number: int, seed: int, is_turned: bool) -> tuple[Record, Record]:
    """Load both once, in either order; return the records in the order of the cases."""
    one, other = both
    if is_turned:
        second = other.slice(number, seed, SLICE, order=1)
        return one.slice(number, seed, SLICE, order=2), second
    first = one.slice(number, seed, SLICE, order=1)
    return first, other.slice(number, seed, SLICE, order=2)
