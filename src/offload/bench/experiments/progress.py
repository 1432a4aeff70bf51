"""Progress on stderr: current case, phase and remaining time; plain lines without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from offload.bench.analysis.comparison import rate_of
from offload.bench.planning import round_times, schedule, time_budget
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import by_round


class Progress:
    """Show the progress of a run: a live line on a terminal, else a line for each step."""

    def __init__(self, plan: Plan, records: list[Record]) -> None:
        self._plan, self._records = plan, records
        self._place, self._name, self._retry = "", "", ""
        self._phase, self._phase_ends = "start", time.monotonic()
        self._ends = time.monotonic() + self._expected_s()
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(get_renderable=self._line, console=self._console, transient=True)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def begin(self, place: str, name: str) -> None:
        """Start a round of a block, or a long run."""
        self._place, self._name = place, name
        self._ends = time.monotonic() + self._expected_s()
        if not self._console.is_terminal:
            print(f"{self._line()}", file=sys.stderr, flush=True)

    def phase(self, name: str, expected: float) -> None:
        """Start a phase that may take `expected` seconds."""
        self._phase, self._phase_ends = name, time.monotonic() + expected

    def retry(self, reasons: Sequence[str]) -> None:
        """Add the reasons of a retry to its result, when it is printed."""
        self._retry = f", measured again: {'; '.join(reasons)}"

    def done(self, found: Sequence[Record]) -> None:
        """Print the rate of each measured case, or the reason if it has none."""
        retry = self._retry if found[0].trial.attempt > 1 else ""
        rates = []
        places = list(dict.fromkeys(record.trial.place for record in found))
        for place in places:
            own = [record for record in found if record.trial.place == place]
            rate = next(iter(by_round(own, rate_of).values()), None)
            shown = "no rate" if rate is None else f"{rate:.2f}/s"
            name = f"{self._plan.cases[place or 0].name} " if len(places) > 1 else ""
            rates.append(f"{name}{own[-1].problem or shown}")
        line = f"[{self._place}] {self._name}: {', '.join(rates)}{retry}"
        self._console.print(line, markup=False, soft_wrap=True)

    def _expected_s(self) -> float:
        """Estimate the remaining time in s, including all rounds until the next analysis."""
        plan, records = self._plan, self._records
        times = round_times.expected(plan, records)
        rounds = sum(times[due.block] for due in schedule.due(plan, records))
        if (left := time_budget.left_for_rounds_s(plan, records)) is not None:
            rounds = min(rounds, max(0.0, left))
        return rounds + time_budget.long_runs_s(plan, records)

    def _line(self) -> Text:
        left, whole = max(0.0, self._phase_ends - time.monotonic()), self._ends - time.monotonic()
        place = f"[{self._place}] {self._name}"
        rest = f"at least {duration(max(0.0, whole))} left"
        if not self._console.is_terminal:
            return Text(f"{place}; {rest}")
        return Text(f"{place}: {self._phase}, {left:.0f} s; {rest}")


@contextmanager
def live(line: Callable[[], str]) -> Iterator[None]:
    """Show a line that is updated several times a second, on a terminal only."""
    console = Console(stderr=True, highlight=False)
    with ExitStack() as stack:
        if console.is_terminal:
            shown = Live(get_renderable=lambda: Text(line()), console=console, transient=True)
            stack.enter_context(shown)
        yield


def duration(seconds: float) -> str:
    """Format a duration: `40 s`, `3 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def expected_s(plan: Plan, rounds: int) -> float:
    """Estimate the duration of a new run in s if each block needs `rounds` rounds."""
    whole = rounds * sum(round_times.expected(plan, [])) + time_budget.long_runs_s(plan, [])
    return whole if plan.budget_s is None else min(whole, plan.budget_s)
