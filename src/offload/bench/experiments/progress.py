"""Progress on stderr: what is measured, its phase and the seconds left; plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from offload.bench.records import schedule
from offload.bench.records.comparison import rate_of
from offload.bench.records.plan import Plan
from offload.bench.records.record import LONG, Record
from offload.bench.records.run_records import by_round

AROUND = 2.0  # s a long run takes beside its load, on average: start, warm-up, stop
GUESS = 4.0  # s a case of a round that was never measured; afterwards it is known


class Progress:
    """Show how far a run is: a live line on a terminal, else a line for each step."""

    def __init__(self, plan: Plan, records: list[Record]) -> None:
        self._plan, self._records = plan, records
        self._took: dict[int, float] = {}  # s of the last round of each block
        self._spent_s = 0.0
        self._learn(records)
        self._place, self._name, self._again = "", "", ""
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

    def round_s(self, block: int) -> float:
        """Return how long a round of a block takes."""
        return self._took.get(block, GUESS * len(self._plan.blocks[block].cases))

    def left_for_rounds_s(self) -> float | None:
        """Return the time that is left for rounds, without the long runs; None if unlimited."""
        if self._plan.budget_s is None:
            return None
        return self._plan.budget_s - self._spent_s - self._long_runs_s()

    def begin(self, place: str, name: str) -> None:
        """Start a round of a block, or a long run."""
        self._place, self._name = place, name
        self._ends = time.monotonic() + self._expected_s()
        if not self._console.is_terminal:
            print(f"{self._line()}", file=sys.stderr, flush=True)

    def phase(self, name: str, expected: float) -> None:
        """Start a phase that may take `expected` seconds."""
        self._phase, self._phase_ends = name, time.monotonic() + expected

    def again(self, reasons: Sequence[str]) -> None:
        """Show with the next result that it is a retry, and why."""
        self._again = f", measured again: {'; '.join(reasons)}"

    def done(self, found: Sequence[Record]) -> None:
        """Print what was measured: the rate of each case, or why it has none."""
        self._learn(found)
        again = self._again if found[0].trial.attempt > 1 else ""
        rates = []
        for place in dict.fromkeys(record.trial.place for record in found):
            own = [record for record in found if record.trial.place == place]
            rate = next(iter(by_round(own, rate_of).values()), None)
            shown = "no rate" if rate is None else f"{rate:.2f}/s"
            rates.append(f"{own[-1].case.server} {own[-1].problem or shown}")
        line = f"[{self._place}] {self._name}: {', '.join(rates)}{again}"
        self._console.print(line, markup=False, soft_wrap=True)

    def _learn(self, records: Sequence[Record]) -> None:
        """Note how long the rounds of these records took."""
        rounds: dict[tuple[int | None, int | None, int], float] = {}
        for record in records:
            trial = record.trial
            which = (trial.block, trial.round, trial.attempt)
            if trial.kind == LONG:
                self._spent_s += sum(trial.phases.values())
            elif which not in rounds:
                rounds[which] = sum(trial.phases.values())
            else:
                rounds[which] += trial.phases.get("load", 0.0)
        for (block, _, _), seconds in rounds.items():
            self._spent_s += seconds
            if block is not None:
                self._took[block] = seconds

    def _expected_s(self) -> float:
        """Estimate how long the rest takes, with the rounds up to the next analysis."""
        rounds = sum(self.round_s(due.block) for due in schedule.due(self._plan, self._records))
        if (left := self.left_for_rounds_s()) is not None:
            rounds = min(rounds, max(0.0, left))
        return rounds + self._long_runs_s()

    def _long_runs_s(self) -> float:
        due = schedule.long_runs_due(self._plan, self._records)
        return sum(self._plan.cases[place].seconds + AROUND for place in due)

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
    """Return a number of seconds in words: `40 s`, `3 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def expected_s(plan: Plan, rounds: int) -> float:
    """Estimate how long a new run takes, in seconds, if so many rounds of each block are enough."""
    each = sum(GUESS * len(block.cases) for block in plan.blocks)
    long = sum(case.seconds + AROUND for case in plan.cases) if plan.driver else 0.0
    whole = rounds * each + long
    return whole if plan.budget_s is None else min(whole, plan.budget_s)
