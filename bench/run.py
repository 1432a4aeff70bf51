"""A run: every case of a suite is visited, and each record is on disk before the next begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import catalog
import upstream
from bench import flags, journal, server
from bench.progress import Progress
from bench.record import Record
from bench.visit import new_record, not_available, visit
from errors import Mendable
from suites import Case
from upstream import Upstream

AROUND = 5.0  # s a visit takes beside its load, on average: start, warm-up, stop


def expected_s(cases: Sequence[Case]) -> float:
    """Estimate how long a run of these cases takes, in seconds."""
    return sum(case.seconds + AROUND for case in cases)


def run(cases: Sequence[Case], suite: str, folder: Path, driver: str) -> Iterator[Record]:
    """Visit the cases in turn; yield each record when it is durable in `folder`."""
    server.adopt_orphans()
    earlier: list[Record] = []
    with ExitStack() as stack:
        held = _hold(stack) if _any_needs(cases) else None
        progress = stack.enter_context(Progress([case.name for case in cases], expected_s(cases)))
        for order, case in enumerate(cases, start=1):
            needed = held if "upstream" in catalog.find_task(case.task).needs else None
            progress.row(order, case.seconds + AROUND)
            if isinstance(needed, Mendable):
                record = not_available(new_record(case, folder.name, None), needed)
            else:
                record = visit(case, driver, folder.name, needed, progress.phase)
            doubts = record.flags + flags.of_bodies(record, earlier)
            record = replace(record, suite=suite, order=order, flags=doubts)
            journal.append(folder, record)
            earlier.append(record)
            progress.done(record)
            yield record


def _hold(stack: ExitStack) -> Upstream | Mendable:
    """Start the upstream, or say why the rows that need it have no figures."""
    try:
        return stack.enter_context(upstream.hold()).upstream
    except Mendable as error:
        return error


def _any_needs(cases: Sequence[Case]) -> bool:
    return any("upstream" in catalog.find_task(case.task).needs for case in cases)
