"""Progress on stderr: what is measured, its phase and the seconds left; plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from offload.bench.records.plan import Plan
from offload.bench.records.record import VISIT, Record
from offload.bench.records.schedule import Due
from offload.suites import Case

AROUND = 5.0  # s a long run takes beside its load, on average: start, warm-up, stop
GUESS = 7.0  # s of a visit that was never made; afterwards it is known


class Progress:
    """Show how far a run is: a live line on a terminal, else a line for each visit's load."""

    def __init__(self, plan: Plan, todo: Sequence[Due], records: Sequence[Record]) -> None:
        self._plan = plan
        self._took = {(r.trial.kind, r.key): sum(r.trial.phases.values()) for r in records}
        self._place, self._name, self._again = "", "", ""
        self._phase, self._phase_ends = "start", time.monotonic()
        self._ends = time.monotonic() + self._expected_s(todo)
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(get_renderable=self._line, console=self._console, transient=True)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def begin(self, due: Due, todo: Sequence[Due]) -> None:
        """Start a visit, the first of those left in its round."""
        kind = f"round {due.round}" if due.kind == VISIT else "long run"
        self._place, self._name = f"{kind}, {due.order}/{len(self._plan.cases)}", due.case.name
        self._ends = time.monotonic() + self._expected_s(todo)

    def phase(self, name: str, expected: float) -> None:
        """Start a phase that may take `expected` seconds."""
        self._phase, self._phase_ends = name, time.monotonic() + expected
        if not self._console.is_terminal and name == "load":
            print(f"{self._line()}", file=sys.stderr, flush=True)

    def again(self, reasons: Sequence[str]) -> None:
        """Show with the next visit that it is a retry, and why."""
        self._again = f", measured again: {'; '.join(reasons)}"

    def done(self, record: Record) -> None:
        """Print a finished visit: its rate, or why it has none."""
        self._took[record.trial.kind, record.key] = sum(record.trial.phases.values())
        rate = "no rate" if record.result.rate is None else f"{record.result.rate:.2f} trans/s"
        again = self._again if record.trial.attempt > 1 else ""
        line = f"[{self._place}] {self._name}: {record.problem or rate}{again}"
        self._console.print(line, markup=False, soft_wrap=True)

    def _expected_s(self, todo: Sequence[Due]) -> float:
        """Estimate how long these take, with the rounds up to the next analysis."""
        now = todo[0].round if todo else 0
        further = max(0, self._plan.design.counts[0] - now)
        each = sum(self._visit_s(case) for case in self._plan.cases)
        return sum(self._due_s(due) for due in todo) + further * each

    def _due_s(self, due: Due) -> float:
        if due.kind == VISIT:
            return self._visit_s(due.case)
        return due.case.seconds + AROUND

    def _visit_s(self, case: Case) -> float:
        return self._took.get((VISIT, case.key), GUESS)

    def _line(self) -> Text:
        now = time.monotonic()
        left, whole = max(0.0, self._phase_ends - now), max(0.0, self._ends - now)
        place = f"[{self._place}] {self._name}"
        return Text(f"{place}: {self._phase}, {left:.0f} s; at least {duration(whole)} left")


@contextmanager
def live(line: Callable[[], str]) -> Iterator[None]:
    """Show a line that is updated several times a second, on a terminal only."""
    console = Console(stderr=True, highlight=False)
    with ExitStack() as stack:
        if console.is_terminal:
            shown = Live(get_renderable=lambda: Text(line()), console=console, transient=True)
            stack.enter_context(shown)
        yield


def expected_s(plan: Plan, visits: int | None = None) -> float:
    """Estimate how long a new run takes, in seconds, if so many visits are enough.

    Without `visits`, those up to its first analysis.
    """
    visits = visits or plan.design.counts[0]
    long = sum(case.seconds + AROUND for case in plan.cases) if plan.driver else 0.0
    return long + visits * GUESS * len(plan.cases)


def duration(seconds: float) -> str:
    """Return a number of seconds in words: `40 s`, `3 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
