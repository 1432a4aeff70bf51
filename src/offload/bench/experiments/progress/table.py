"""The table of a run so far on a terminal, drawn from texts that are ready: it costs little CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style

from offload.bench.experiments.progress.case_rows import HEAD, NUMBERS, UNKNOWN, CaseRow

LONGEST_NAME, PHASE = 40, 5  # letters
HEADER, ACTIVE = Style(bold=True), Style(bold=True, color="cyan")
OTHER_LINES = 4  # of the terminal: the header, the range of rows, the last line, and the cursor


class ProgressTable:
    """The rows that fit on the terminal, those that are measured now among them, and a last line.

    `phase_of` returns the phase of a row by its number, or an empty text.
    """

    def __init__(
        self,
        rows: Sequence[CaseRow],
        phase_of: Callable[[int], str],
        last_line: Callable[[], str],
    ) -> None:
        self._rows, self._phase_of, self._last_line = rows, phase_of, last_line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Yield the lines, cut at the width of the terminal."""
        for text, style in self.lines(console.size.height):
            plain = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
            yield Segment(set_cell_size(plain, min(cell_len(plain), options.max_width)), style)
            yield Segment.line()

    def lines(self, height: int) -> Iterator[tuple[str, Style | None]]:
        """Yield each line with its style."""
        rows = [*self._rows]  # another thread may add one
        phases = [self._phase_of(number) for number in range(len(rows))]
        shown = _shown(phases, max(1, height - OTHER_LINES))
        table = [(row.name, phases[n] or UNKNOWN, *row.cells) for n, row in enumerate(rows)]
        table = table[shown.start : shown.stop]
        widths = [
            max(cell_len(cells[column]) for cells in (HEAD, *table)) for column in range(len(HEAD))
        ]
        widths[0], widths[1] = min(widths[0], LONGEST_NAME), max(widths[1], PHASE)
        yield _line(HEAD, widths), HEADER
        for n, cells in zip(shown, table, strict=True):
            yield _line(cells, widths), ACTIVE if phases[n] else None
        if len(shown) < len(rows):
            yield f"rows {shown.start + 1} to {shown.stop} of {len(rows)}", None
        yield self._last_line(), None


def _shown(phases: Sequence[str], room: int) -> range:
    """Return the rows that fit: those that are measured now are among the first of them."""
    first = next((number for number, phase in enumerate(phases) if phase), 0)
    start = max(0, min(first - room // 4, len(phases) - room))
    return range(start, min(len(phases), start + room))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, (text, width) in enumerate(zip(cells, widths, strict=True)):
        padding = " " * (width - cell_len(text))
        parts.append(padding + text if column in NUMBERS else set_cell_size(text, max(width, 0)))
    return "  ".join(parts)
