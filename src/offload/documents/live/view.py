"""What the page shows: a table of texts, and the current step, of a run or of rows from a pipe.

The process of a run is not involved; its page is read from the files in its folder::

    run.json -------> the rows
    records.jsonl --> their figures   only what was appended since the last second; at first
                                      also compressed records
    progress.json --> phase, time left
    report.html ----> shown at the end

A pipe has JSON objects, one a line: `{"head": [...]}` first, `{"row": [...]}` for each row, and
`{"lines": [...]}` at the end, which are shown below the table.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from offload import files
from offload.documents import html_report
from offload.engine import journal, progress
from offload.engine.plan import Plan
from offload.engine.progress import CaseRows, RunProgress
from offload.engine.record import Record, from_line
from offload.errors import StorageError, printable

RUNNING, ENDED, BROKEN = "running", "ended", "broken"  # the states
LONGEST = 400  # letters of a cell


@dataclass(frozen=True)
class View:
    """The content of the page; it is sent only if it differs from the previous content.

    `step` describes the current step. The page counts down to the expected end of its `phase` and
    to `ends`, the expected end of the run, both in Unix time in s. `lines` are below the table.
    Rows whose number is in `active` are measured now, and columns in `numbers` are aligned to the
    right. With `has_report` the page shows the report instead.
    """

    state: str
    step: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()
    active: tuple[int, ...] = ()
    phase: str = ""
    phase_ends: float | None = None
    ends: float | None = None
    lines: tuple[str, ...] = ()
    has_report: bool = False

    def encode(self) -> bytes:
        """Return the view as JSON without characters that no document may contain."""
        values = asdict(self)
        for name in ("step", "phase"):
            values[name] = _text(values[name])
        for name in ("head", "lines"):
            values[name] = _texts(values[name])
        values["rows"] = [_texts(row) for row in self.rows]
        return json.dumps(values, separators=(",", ":")).encode()


class Source(Protocol):
    """Where the page's content comes from; `title` is its heading."""

    title: str

    def read(self) -> View:
        """Read what is new, and return the content now; never raise for what others wrote."""

    def report(self) -> bytes | None:
        """Return the finished report in HTML; None if there is none."""


def _texts(texts: Sequence[str]) -> list[str]:
    return [_text(text) for text in texts]


def _text(text: str) -> str:
    return printable(text)[:LONGEST]


# The new lines of a file or a pipe that another process writes; a half line is kept.
MOST_BYTES = 1 << 22  # bytes that are read at once; the rest follows a second later
LONGEST_LINE = 1 << 23  # bytes of a line: a longer one is no record, and is skipped


class Lines:
    """Split bytes into lines; the last part waits for its end."""

    def __init__(self) -> None:
        self._rest = b""

    def split(self, content: bytes) -> list[bytes]:
        """Return the lines that are whole now."""
        *whole, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
        return [line for line in whole if line]


class FileTail:
    """The lines that are appended to a file, from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = Lines()
        self._offset = 0

    def read(self) -> list[bytes]:
        """Return the lines that are new; none if the file does not exist."""
        try:
            content = files.read(self._path, MOST_BYTES, self._offset)
        except OSError:
            return []
        self._offset += len(content)
        return self._lines.split(content)


class PipeTail:
    """The lines that come through a pipe; `is_closed` after its end."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._lines = Lines()
        self.is_closed = False

    def read(self) -> list[bytes]:
        """Return the lines that are new, without waiting."""
        found: list[bytes] = []
        while not self.is_closed:
            try:
                content = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
            except OSError:
                content = b""
            self.is_closed = not content
            found += self._lines.split(content)
        return found


Stamp = tuple[int, int] | None
LARGEST_REPORT = 1_000_000  # bytes; ours have at most 400 kB


class RunView:
    """A run that is measured or has ended."""

    def __init__(self, folder: Path) -> None:
        self.title = folder.name
        self._folder = folder
        self._plan: Plan | None = None
        self._plan_stamp: Stamp = None
        self._is_first = True
        self._tail = FileTail(folder / journal.FILE)
        self._all: list[Record] = []
        self._rows = CaseRows(())
        self._records: list[Record] = []  # those in the plan
        self._progress: RunProgress | None = None
        self._seen: RunProgress | None = None  # the last one that there was
        self._stamp: Stamp = None
        self._is_complete: tuple[int, bool] = (-1, False)  # by the number of records

    def read(self) -> View:
        """Read what was appended since the last call."""
        self._add_records()
        self._read_progress()
        progress = self._progress
        if not self._folder.is_dir():
            return self._view(BROKEN, f"The folder of {self.title} was removed.")
        if progress is not None and progress.is_running:
            return self._running(progress)
        if self._seen is not None and self._seen.is_running and not self._has_report():
            return self._view(RUNNING, "No more rounds are due; the command continues.")
        if progress is not None or not self._has_all():
            what = "The process that measured has ended" if progress else "Not measured completely"
            return self._view(BROKEN, f"{what}: continue with offload resume {self.title}")
        if self._has_report():
            return self._view(ENDED, "The run has ended.", has_report=True)
        hint = f"offload report {self.title} format=html writes its report"
        return self._view(ENDED, f"The run has ended; {hint}.")

    def report(self) -> bytes | None:
        """Return the report.html of the run; None if there is none, or one of older records."""
        if not self._has_report():
            return None
        try:
            return files.read(self._folder / html_report.REPORT_FILE, LARGEST_REPORT)
        except OSError:
            return None

    def _add_records(self) -> None:
        found = []
        for line in self._new_lines():
            try:
                found.append(from_line(line.decode(errors="replace")))
            except ValueError:  # a torn line, or one of another version
                continue
        self._all += found
        if (stamp := _stamp(self._folder / journal.RUN_FILE)) != self._plan_stamp:
            self._plan_stamp = stamp  # advice on an application adds cases to its plan
            self._plan = journal.find_plan(self._folder)
            self._rows = CaseRows(self._plan.cases if self._plan is not None else ())
            self._records, found = [], self._all
        if self._plan is not None:
            found = journal.filter_planned(self._plan, found)
        self._records += found
        self._rows.add(found)

    def _new_lines(self) -> list[bytes]:
        """Return the lines that are new; at first those of compressed records, too."""
        found = self._tail.read()
        if self._is_first:
            self._is_first = False
            with suppress(StorageError):
                older = [line for line in journal.decompressed(self._folder).split(b"\n") if line]
                return found if found[: len(older)] == older else [*older, *found]
        return found

    def _read_progress(self) -> None:
        """Read the progress again if its file has changed."""
        stamp = _stamp(self._folder / progress.PROGRESS_FILE)
        if stamp != self._stamp:
            self._stamp = stamp
            self._progress = progress.read_progress(self._folder)
            self._seen = self._progress or self._seen

    def _running(self, progress: RunProgress) -> View:
        phases = tuple(progress.phase_of(index) for index in range(len(self._rows.rows)))
        return self._view(
            RUNNING,
            progress.step,
            phases,
            phase=progress.phase,
            phase_ends=progress.phase_ends,
            ends=progress.ends,
        )

    def _view(
        self,
        state: str,
        step: str,
        phases: tuple[str, ...] = (),
        *,
        phase: str = "",
        phase_ends: float | None = None,
        ends: float | None = None,
        has_report: bool = False,
    ) -> View:
        shown = phases or ("",) * len(self._rows.rows)
        rows = zip(self._rows.rows, shown, strict=True)
        return View(
            state,
            step,
            progress.HEAD,
            tuple((row.name, now or progress.UNKNOWN, *row.cells) for row, now in rows),
            progress.NUMBERS,
            tuple(n for n, now in enumerate(shown) if now),
            phase,
            phase_ends,
            ends,
            has_report=has_report,
        )

    def _has_all(self) -> bool:
        """Whether the plan has nothing more to measure; a run without a plan is complete."""
        if self._plan is None:
            return True
        count = len(self._records)
        if self._is_complete[0] != count:
            self._is_complete = (count, self._plan.next_step(self._records) is None)
        return self._is_complete[1]

    def _has_report(self) -> bool:
        """Whether the report was written after the last record."""
        report = _stamp(self._folder / html_report.REPORT_FILE)
        records = _stamp(journal.newest_file(self._folder))
        return report is not None and records is not None and report[0] >= records[0]


def _stamp(path: Path) -> Stamp:
    """Return the time of the last change and the inode of a file; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


MOST_ROWS = 120  # rows; older ones are dropped


class PipeView:
    """Rows from a pipe, such as the lines of offload watch, the newest first."""

    def __init__(self, title: str, descriptor: int) -> None:
        self.title = title
        self._tail = PipeTail(descriptor)
        self._head: tuple[str, ...] = ()
        self._rows: deque[tuple[str, ...]] = deque(maxlen=MOST_ROWS)
        self._lines: tuple[str, ...] = ()

    def read(self) -> View:
        """Read the rows that came since the last call."""
        for line in self._tail.read():
            values = json.loads(line)
            self._head = tuple(values.get("head", self._head))
            self._lines = tuple(values.get("lines", self._lines))
            if "row" in values:
                self._rows.appendleft(tuple(values["row"]))
        step = "Watching ended." if self._tail.is_closed else "One row per second, newest first."
        return View(
            ENDED if self._tail.is_closed else RUNNING,
            step,
            self._head,
            tuple(self._rows),
            numbers=tuple(range(len(self._head) - 1)),
            lines=self._lines,
        )

    def report(self) -> bytes | None:
        """Return None: watching has no report."""
        return None
