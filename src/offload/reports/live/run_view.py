"""The page of a run, from the files in its folder: the process of the run is not involved.

::

    run.json -------> the rows
    records.jsonl --> their figures   only what was appended since the last second; at first
                                      also compressed records
    progress.json --> phase, time left
    report.html ----> shown at the end
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from offload import files
from offload.bench.experiments.progress import display, progress_file
from offload.bench.experiments.progress.display import CaseRows
from offload.bench.experiments.progress.progress_file import RunProgress
from offload.engine import journal
from offload.engine.plan import Plan
from offload.engine.record import Record, from_line
from offload.errors import StorageError
from offload.reports.html import page
from offload.reports.live.tail import FileTail
from offload.reports.live.view import BROKEN, ENDED, RUNNING, View

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
            return files.read(self._folder / page.REPORT_FILE, LARGEST_REPORT)
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
        stamp = _stamp(self._folder / progress_file.FILE)
        if stamp != self._stamp:
            self._stamp = stamp
            self._progress = progress_file.read(self._folder)
            self._seen = self._progress or self._seen

    def _running(self, progress: RunProgress) -> View:
        phases = tuple(progress.phase_of(place) for place in range(len(self._rows.rows)))
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
            display.HEAD,
            tuple((row.name, now or display.UNKNOWN, *row.cells) for row, now in rows),
            display.NUMBERS,
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
        report = _stamp(self._folder / page.REPORT_FILE)
        records = _stamp(journal.newest_file(self._folder))
        return report is not None and records is not None and report[0] >= records[0]


def _stamp(path: Path) -> Stamp:
    """Return the time of the last change and the inode of a file; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
