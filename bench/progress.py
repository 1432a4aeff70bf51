"""Progress on stderr: the row, its phase and the seconds left; plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from bench.record import Record


class Progress:
    """Show how far a run is: a live line on a terminal, else a line for each row and phase."""

    def __init__(self, rows: Sequence[str], seconds: float) -> None:
        self._rows = rows
        self._order = 1
        self._phase, self._phase_ends = "start", time.monotonic()
        self._ends = time.monotonic() + seconds
        self._after_row = seconds
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(get_renderable=self._line, console=self._console, transient=True)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def row(self, order: int, expected: float) -> None:
        """Begin a row that may take `expected` seconds."""
        self._order = order
        self._ends = time.monotonic() + self._after_row
        self._after_row -= expected

    def phase(self, name: str, expected: float) -> None:
        """Begin a phase of the row that may take `expected` seconds."""
        self._phase, self._phase_ends = name, time.monotonic() + expected
        if not self._console.is_terminal and name in ("warm", "load"):
            print(f"{self._line()}", file=sys.stderr, flush=True)

    def done(self, record: Record) -> None:
        """End a row with its rate, or with why it has none."""
        rate = "no rate" if record.rate is None else f"{record.rate:.2f} trans/s"
        line = f"[{self._order}/{len(self._rows)}] {self._name}: {record.problem or rate}"
        self._console.print(line, markup=False, soft_wrap=True)

    @property
    def _name(self) -> str:
        return self._rows[self._order - 1]

    def _line(self) -> Text:
        now = time.monotonic()
        left, whole = max(0.0, self._phase_ends - now), max(0.0, self._ends - now)
        place = f"[{self._order}/{len(self._rows)}] {self._name}"
        return Text(f"{place}: {self._phase}, {left:.0f} s left; whole run {duration(whole)} left")


def duration(seconds: float) -> str:
    """Word a number of seconds as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
