"""Progress on stderr: a table of the rows so far on a terminal, else a plain line for each step.

The table is drawn from texts that are ready: it costs little CPU. The live page has its rows, too.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from offload import files
from offload.engine import journal
from offload.engine.figures import estimate_rate, find_disturbance, median_of, rate_of
from offload.engine.plan import Plan
from offload.engine.record import LONG, Record, RunRecords, average_by_round, dataclass_from
from offload.suites import Case
from offload.units import CASE, GIL_HELD, LOOP_LAG, RATE, number, percent

HEAD = (CASE, "Phase", "Rounds", f"{RATE} per s (95 % interval)", GIL_HELD, f"{LOOP_LAG} p99")
NUMBERS = (2, 4, 5)  # the columns that are aligned to the right
UNKNOWN = "-"


class Progress:
    """Show the progress of a run: a table on a terminal, else a line for each step.

    With a `folder` its file is replaced at each phase, for the live page. The terminal is updated
    once a second, from texts that are ready: phases only set fields and never wait for it.
    """

    def __init__(self, plan: Plan, records: list[Record], folder: Path | None = None) -> None:
        self._plan, self._records, self._folder = plan, records, folder
        self._step, self._title, self._retry = "", "", ""
        self._problems: set[str] = set()  # that were printed
        self._has_warned = False
        left_s, now = self._expected_s(), time.time()
        self._ends = time.monotonic() + left_s
        self._now = own_progress("starting", "start", now, now + left_s)
        self._console = Console(stderr=True, highlight=False, emoji=False)  # names may have `:key:`
        self._has_table = _can_update(self._console)
        self._rows = CaseRows(plan.cases)
        if self._has_table:
            self._rows.add(records)
        table = ProgressTable(self._rows.rows, self._phase_of, self._line)
        self._live = Live(table, console=self._console, transient=True, refresh_per_second=1)

    def __enter__(self) -> Progress:
        self._write()
        if self._has_table:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_table:
            self._live.stop()
        if self._folder is not None:
            remove_progress(self._folder)

    def begin(
        self, step: str, title: str, case_indexes: Sequence[int] = (), retry_s: float = 0.0
    ) -> None:
        """Start a step, such as a round of a block, of the cases at `case_indexes` in the plan.

        `title` names these cases. `retry_s` is the expected time of a retry, which is not one of
        the rounds that are due.
        """
        self._step, self._title = step, title
        self._ends = time.monotonic() + self._expected_s(retry_s)
        self._now = replace(self._now, step=f"{step}: {title}", case_indexes=tuple(case_indexes))
        if not self._has_table:
            print(f"{self._line()}", file=sys.stderr, flush=True)

    def phase(self, name: str, expected: float, loaded: int | None = None) -> None:
        """Start a phase that may take `expected` seconds; only the case at `loaded` is loaded."""
        now, ends = time.time(), self._ends - time.monotonic()
        self._now = replace(
            self._now, phase=name, phase_ends=now + expected, ends=now + ends, loaded=loaded
        )
        self._write()

    def retry(self, reasons: Sequence[str]) -> None:
        """Add the reasons of a retry to its result, when it is printed."""
        self._retry = f", measured again: {'; '.join(reasons)}"

    def done(self, found: Sequence[Record]) -> None:
        """Print the rate of each measured case, or the reason if it has none.

        A reason that was printed before is not repeated. On a terminal the table has the rates, and
        only retries and problems have a line.
        """
        if self._has_table:
            self._rows.add(found)
        retry = self._retry if found[0].trial.attempt > 1 else ""
        rates = []
        case_indexes = list(dict.fromkeys(record.trial.case_index for record in found))
        for index in case_indexes:
            own = [record for record in found if record.trial.case_index == index]
            rate = next(iter(average_by_round(own, rate_of).values()), None)
            shown = "no rate" if rate is None else f"{rate:.2f}/s"
            name = f"{self._plan.cases[index or 0].name} " if len(case_indexes) > 1 else ""
            rates.append(f"{name}{self._reason(own[-1]) or shown}")
        if not self._has_table or retry or any(r.problem for r in found):
            self._print(f"[{self._step}] {self._title}: {', '.join(rates)}{retry}")
        self._warn_of_disturbance(found)

    def _warn_of_disturbance(self, found: Sequence[Record]) -> None:
        """Warn once, early, that the run may have no verdict because the machine is busy."""
        flag = None if self._has_warned else find_disturbance(found, [])
        if flag is not None:
            self._has_warned = True
            self._print(
                f"warning: {flag.message}: {flag.remedy}; otherwise there may be no verdict"
            )

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)

    def _reason(self, record: Record) -> str:
        """Return why a case has no rate; empty if it has one."""
        if record.problem is None:
            return ""
        if (text := str(record.problem)) in self._problems:
            return "the same problem as before"
        self._problems.add(text)
        return text

    def _expected_s(self, retry_s: float = 0.0) -> float:
        return self._plan.rule.left_s(self._plan, self._records, retry_s)

    def _phase_of(self, index: int) -> str:
        return self._now.phase_of(index)

    def _line(self) -> str:
        step = f"[{self._step}] {self._title}"
        rest = f"about {duration(max(0.0, self._ends - time.monotonic()))} left"
        if not self._has_table:
            return f"{step}; {rest}"
        left = max(0.0, self._now.phase_ends - time.time())
        return f"{step}: {self._now.phase}, {left:.0f} s; {rest}"

    def _write(self) -> None:
        if self._folder is not None:
            write_progress(self._folder, self._now)


@contextmanager
def live(line: Callable[[], str]) -> Iterator[None]:
    """Show a line that is updated once a second, on a terminal only."""
    console = Console(stderr=True, highlight=False)
    with ExitStack() as stack:
        if _can_update(console):
            shown = Live(
                get_renderable=lambda: Text(line()),
                console=console,
                transient=True,
                refresh_per_second=1,
            )
            stack.enter_context(shown)
        yield


def _can_update(console: Console) -> bool:
    """Whether the console is a terminal whose lines can be updated.

    FORCE_COLOR, which CI systems set, makes rich treat a pipe as a terminal.
    """
    can_control = console.is_terminal and not console.is_dumb_terminal
    return can_control and console.file.isatty()


def duration(seconds: float) -> str:
    """Format a duration: `40 s`, `3 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


LONGEST_NAME, PHASE_WIDTH = 40, 5  # letters
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
        shown = _shown_rows(phases, max(1, height - OTHER_LINES))
        table = [(row.name, phases[n] or UNKNOWN, *row.cells) for n, row in enumerate(rows)]
        table = table[shown.start : shown.stop]
        widths = [
            max(cell_len(cells[column]) for cells in (HEAD, *table)) for column in range(len(HEAD))
        ]
        widths[0], widths[1] = min(widths[0], LONGEST_NAME), max(widths[1], PHASE_WIDTH)
        yield _table_line(HEAD, widths), HEADER
        for n, cells in zip(shown, table, strict=True):
            yield _table_line(cells, widths), ACTIVE if phases[n] else None
        if len(shown) < len(rows):
            yield f"rows {shown.start + 1} to {shown.stop} of {len(rows)}", None
        yield self._last_line(), None


def _shown_rows(phases: Sequence[str], room: int) -> range:
    """Return the rows that fit: those that are measured now are among the first of them."""
    first = next((number for number, phase in enumerate(phases) if phase), 0)
    start = max(0, min(first - room // 4, len(phases) - room))
    return range(start, min(len(phases), start + room))


def _table_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, (text, width) in enumerate(zip(cells, widths, strict=True)):
        padding = " " * (width - cell_len(text))
        parts.append(padding + text if column in NUMBERS else set_cell_size(text, max(width, 0)))
    return "  ".join(parts)


@dataclass
class CaseRow:
    """The records of a case so far, and its cells without the phase."""

    name: str
    records: list[Record] = field(default_factory=list)
    cells: tuple[str, str, str, str] = ("0", UNKNOWN, UNKNOWN, UNKNOWN)

    def compute(self) -> None:
        """Compute the cells from all records."""
        windows = RunRecords(self.records).windows()
        rounds = {(record.trial.block, record.trial.round) for record in windows}
        gil = median_of(self.records, lambda record: record.gil.hold.value)
        lag = median_of(self.records, lambda record: record.tasks.loop_lag_p99_ms)
        self.cells = (
            str(len(rounds)),
            _rate_cell(windows, self.records),
            UNKNOWN if gil is None else percent(gil),
            UNKNOWN if lag is None else f"{lag:.1f} ms",
        )


class CaseRows:
    """The rows of the cases of a plan, and of others as their records come.

    `version` changes with the cells. Only rows with new records are computed.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self.version = 0
        self.rows = [CaseRow(case.name) for case in cases]
        self._planned = len(cases)
        self._case_indexes: dict[Hashable, int] = {}
        for index, case in enumerate(cases):
            self._case_indexes.setdefault(case.key, index)

    def add(self, records: Sequence[Record]) -> None:
        """Add records to their rows."""
        changed = {self._place_of(record): record for record in records}
        for record in records:
            self.rows[self._place_of(record)].records.append(record)
        for index in changed:
            self.rows[index].compute()
        self.version += bool(changed)

    def _place_of(self, record: Record) -> int:
        index = record.trial.case_index
        if index is not None and 0 <= index < self._planned:
            return index
        if record.key not in self._case_indexes:
            self._case_indexes[record.key] = len(self.rows)
            self.rows.append(CaseRow(record.case.id))
        return self._case_indexes[record.key]


def _rate_cell(windows: Sequence[Record], records: Sequence[Record]) -> str:
    """Return the rate with its interval, that of a long run alone, or why there is none."""
    found = estimate_rate(windows)
    if found.value is not None:
        if found.low is None or found.high is None:
            return number(found.value)
        return f"{number(found.value)} ({number(found.low)} to {number(found.high)})"
    others = [record.result.rate for record in records if record.trial.kind == LONG or not windows]
    if known := [value for value in others if value]:
        return number(known[-1])
    problems = [record.problem.text for record in records if record.problem is not None]
    return problems[-1] if problems else "no rate"


PROGRESS_FILE = "progress.json"
LONGEST = 100_000  # bytes of a file that is read: ours have about 300
CLOCK_S = 5.0  # the start of a process may differ by this much after the clock was set


@dataclass(frozen=True)
class RunProgress:
    """What a run does now.

    `step` names the round or long run, and `case_indexes` are its cases in the plan. In a `phase`
    in which one case is loaded, `loaded` is its index. `phase_ends` and `ends` are expected Unix
    times, `ends` that of the run, at least. `pid` and `started` identify the process that measures.
    """

    pid: int
    started: float
    step: str
    phase: str
    phase_ends: float
    ends: float
    case_indexes: tuple[int, ...] = ()
    loaded: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process that measures still runs."""
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.started) < CLOCK_S
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, ValueError, OverflowError):
            return False

    def phase_of(self, index: int) -> str:
        """Return the phase of a case; empty if it is not measured now."""
        if index not in self.case_indexes:
            return ""
        return self.phase if self.loaded in (None, index) else "wait"


@functools.cache
def own_start(pid: int) -> float:
    """Return the Unix time at which this process started; `pid` is its own, for after a fork."""
    return float(psutil.Process(pid).create_time())


def write_progress(folder: Path, progress: RunProgress) -> None:
    """Replace the file atomically; a run goes on if that fails, for its records matter more."""
    with suppress(OSError):
        files.replace(folder / PROGRESS_FILE, json.dumps(asdict(progress)).encode())


def remove_progress(folder: Path) -> None:
    """Remove the file, because the run has ended."""
    with suppress(OSError):
        (folder / PROGRESS_FILE).unlink(missing_ok=True)


def read_progress(folder: Path) -> RunProgress | None:
    """Read the file; None if there is none, or one that this version cannot read."""
    try:
        values = files.parse_json(files.read(folder / PROGRESS_FILE, LONGEST))
        return dataclass_from(RunProgress, values)
    except (OSError, ValueError):
        return None


def own_progress(step: str, phase: str, phase_ends: float, ends: float) -> RunProgress:
    """Return the progress of a run that this process measures."""
    pid = os.getpid()
    return RunProgress(pid, own_start(pid), step, phase, phase_ends, ends)


def announce_run(folder: Path) -> None:
    """Write the progress of a run that this process starts now, unless another one measures it."""
    if (known := read_progress(folder)) is not None and known.is_running:
        return
    now = time.time()
    write_progress(folder, own_progress("starting", "start", now, now))


def newest_running() -> Path | None:
    """Find the run that began its phase last, of those that are measured now; None without any."""
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        for path in journal.RESULTS.glob(f"*/{PROGRESS_FILE}"):
            progress = read_progress(path.parent)
            if progress is not None and progress.is_running:
                found.append((path.stat().st_mtime_ns, path.parent))
    return max(found)[1] if found else None
