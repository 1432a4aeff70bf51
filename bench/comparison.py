"""A comparison: two cases on live servers, loaded in turn by slices, until a verdict is reached.

Pairs of slices that follow each other see the same machine; whatever disturbs both cancels out.
After each look both servers are started afresh, so that no one start decides.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import catalog
import upstream
from bench import asked, draft, journal, plan, server
from bench.measure import measure
from bench.pace import Pace
from bench.progress import live
from bench.record import PAIR, Record
from bench.stats import looks, verdict
from bench.stats.verdict import Verdict
from bench.visit import prepared
from errors import RunError
from suites import Case
from upstream import Upstream

SLICE = 1.0  # s, at least, and one answer per user
EFFECT, ROUGH = verdict.EFFECT, 0.05  # the smallest difference that matters; ROUGH with quick
LOST = 3  # pairs without two rates, after which a comparison is given up


@dataclass(frozen=True)
class Comparison:
    """What the pairs say of `other` against `one`: a ratio above 1 means that `other` is faster."""

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
    """Give a folder for a run of cases, which is gone if it ends without a record.

    Raises what says that a case cannot be started, before there is a folder.
    """
    for case in cases:
        server.command(case, port=0)
    server.adopt_orphans()
    folder = journal.new_run(name)
    try:
        yield folder
    finally:
        with suppress(OSError):  # it has records
            folder.rmdir()


def pairs_of(
    one: Case, other: Case, folder: Path, is_quick: bool, most: int = looks.PAIRS.last
) -> Comparison:
    """Compare two cases by at most so many pairs, into a folder; raise RunError as `compare`."""
    seed = plan.new_seed()
    rng = random.Random(seed)  # noqa: S311 - no secret
    pairs: list[tuple[float, float]] = []
    records: list[Record] = []
    pace = Pace(one, other, pairs)
    effect = ROUGH if is_quick else EFFECT
    found = verdict.compare([], effect=effect)
    for look in (count for count in looks.PAIRS.counts if count <= most):
        with _servers((one, other), folder.name) as sliced, ExitStack() as stack:
            pace.begin(look, most, [each.record for each in sliced], SLICE)
            stack.enter_context(live(pace.line))
            lost = 0
            while len(pairs) < look:
                both = _pair(sliced, len(pairs) + 1, seed, rng.random() < 0.5)
                for record in both:
                    journal.append(folder, record)
                records += both
                first, second = both[0].rate, both[1].rate
                if first and second:
                    pairs.append((first, second))
                    continue
                lost += 1
                if lost >= LOST:
                    why = next((r.problem for r in both if r.problem), "no request was completed")
                    raise RunError(f"{LOST} pairs without two rates: {why}")
        found = verdict.compare(pairs, effect=effect)
        pace.tell(found)
        if found.word != verdict.UNRESOLVED:
            break
    return Comparison(one, other, found, tuple(records), folder)


@dataclass(frozen=True)
class _Sliced:
    """A live server, the record that its slices begin with, and its upstream."""

    running: server.Server
    record: Record
    upstream: Upstream | None

    def slice(self, number: int, seed: int) -> Record:
        record = replace(self.record, round=number, seed=seed)
        window = asked.window(record, self.running.facts)
        load = replace(window, seconds=SLICE, cycles=1.0, completions=asked.FEW)
        return measure(record, load, "builtin", self.running.facts, self.upstream)


@contextmanager
def _servers(cases: Sequence[Case], run: str) -> Iterator[tuple[_Sliced, ...]]:
    """Start all cases' servers, and stop them."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(_server(case, run)) for case in cases)


@contextmanager
def _server(case: Case, run: str) -> Iterator[_Sliced]:
    with ExitStack() as stack:
        held = None
        if "upstream" in catalog.find_task(case.task).needs:
            held = stack.enter_context(upstream.hold()).upstream
        running = server.start(case, {} if held is None else held.environment())
        stack.callback(server.stop, running, server.ABANDONED)
        record = replace(draft.new(case, run, held), kind=PAIR, suite="compare")
        yield _Sliced(running, prepared(draft.with_facts(record, running.facts), running), held)


def _pair(
    sliced: tuple[_Sliced, ...], number: int, seed: int, is_turned: bool
) -> tuple[Record, Record]:
    """Load both once, in either order; give the records in the order of the cases."""
    one, other = sliced
    if is_turned:
        second = other.slice(number, seed)
        return replace(one.slice(number, seed), order=2), replace(second, order=1)
    first = one.slice(number, seed)
    return replace(first, order=1), replace(other.slice(number, seed), order=2)
