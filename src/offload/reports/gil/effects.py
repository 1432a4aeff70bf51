"""GIL effects: each task in threads and in processes, and the rate that the pool allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from offload.bench.records import capacity, comparison
from offload.bench.records.comparison import Comparison
from offload.bench.records.record import TEST, Record
from offload.bench.stats import gil, paired_test
from offload.bench.stats.paired_test import Verdict
from offload.reports import provenance
from offload.reports.rows import Row

AT_CEILING = 0.95  # a share of the ceiling: above it the pool is the limit
HEAD = (
    "Task",
    "Users",
    "GIL held",
    "Threads",
    "Processes",
    "Processes : threads",
    "GIL cost",
    "Pool allows",
    "Reading",
)


@dataclass(frozen=True)
class Effect:
    """One task in `threads` and in `processes`, `compared` in the rounds of their block.

    `pool` is the highest rate in requests/s that the workers allow. Without rounds the comparison
    is of one run of each and has no interval.
    """

    threads: Row
    processes: Row
    compared: Comparison
    pool: float | None

    @property
    def verdict(self) -> Verdict:
        """The verdict at the level of one comparison."""
        return self.compared.verdict

    @property
    def ratio(self) -> float:
        """The rate in processes over the rate in threads, from the rounds if there are some."""
        return self.verdict.ratio or 0.0

    @property
    def cost(self) -> float:
        """The GIL cost C = 1 - threads / processes: the share of the rate that threads lose."""
        return gil.cost(1.0, self.ratio) if self.ratio else 0.0

    @property
    def reading(self) -> str:
        """The conclusion in a few words, if the rounds support one."""
        lower = min(self.threads.rate or 0.0, self.processes.rate or 0.0)
        if self.pool and lower >= AT_CEILING * self.pool:
            return f"the pool of {self.threads.first.server.workers} is the limit, not the GIL"
        if self.verdict.low is None:
            return "once: no verdict"
        outcome = self.verdict.outcome
        if outcome == paired_test.DISTURBED:
            return f"disturbed: {self.compared.disturbed}"
        if outcome == paired_test.FASTER:
            return "processes are faster"
        if outcome == paired_test.SLOWER:
            return "threads are faster: a hop to a process costs more"
        return "no clear difference"


def effects(rows: Sequence[Row]) -> list[Effect]:
    """Pair the rows of each task with the same workers and users; the largest ratio is first."""
    newest = {_comparison_key(row.first): row for row in rows if row.problem is None and row.rate}
    pairs = [
        (threads, newest["processes", *load])
        for (server, *load), threads in newest.items()
        if server == "threads" and ("processes", *load) in newest
    ]
    found = [
        Effect(*pair, _compare(*pair), capacity.of_workers(pair[0].first, pair[0].records))
        for pair in pairs
    ]
    return sorted(found, key=lambda effect: -effect.ratio)


def table(found: Sequence[Effect], style: str = "simple") -> str:
    """Render the effects."""
    lines = [
        (
            effect.threads.first.case.task,
            str(effect.threads.first.case.users),
            "-" if effect.threads.gil_hold is None else f"{effect.threads.gil_hold:.2f}",
            f"{effect.threads.rate:.2f}/s",
            f"{effect.processes.rate:.2f}/s",
            _ratio(effect),
            f"{effect.cost:.2f}",
            f"{effect.pool:.2f}/s" if effect.pool else "-",
            effect.reading,
        )
        for effect in found
    ]
    align = ("left", *("right",) * 7, "left")
    return tabulate(lines, HEAD, tablefmt=style, colalign=align, disable_numparse=True)


def _ratio(effect: Effect) -> str:
    low, high = effect.verdict.low, effect.verdict.high
    interval = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{effect.ratio:.2f}x{interval}"


def _comparison_key(r: Record) -> tuple[object, ...]:
    """Return the server, and everything that must be equal in rows that are compared."""
    by_hand = r.load.driver if r.trial.kind == TEST else None
    load = (
        r.case.task,
        r.server.workers,
        r.case.users,
        r.case.keep_alive,
        r.case.asked_rate,
        r.case.think_s,
        by_hand,
    )
    return (r.case.server, *load, *provenance.provenance_of(r))


def _compare(threads: Row, processes: Row) -> Comparison:
    """Compare the windows by round; a ratio of one run each has no interval."""
    found = comparison.compare(threads.windows, processes.windows)
    if found.verdict.pairs:
        return found
    ratio = (processes.rate or 0.0) / (threads.rate or 1.0)
    return Comparison(Verdict(paired_test.UNRESOLVED, ratio, None, None, 0, None, None))
