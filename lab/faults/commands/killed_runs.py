"""Runs that are killed by SIGKILL at random points, and resumed until they are complete."""

from __future__ import annotations

import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

from lab.faults.commands import bench_process
from offload.engine import journal
from offload.engine.record import SchemaError, from_line
from offload.errors import DisturbedError

RUN = "compare:2/sleep_short_sync,3/sleep_short_sync,users=2,quick=yes"
FINE = (0, DisturbedError.exit_code)  # of a complete run: the machine may be too noisy to decide
WARNING = "is not a record, skipped"
TORN_AT = 1 / 3  # share of a line that is written


class KilledRuns:
    """Runs in one results folder; one of them is measured at a time.

    A comparison of two servers is started as a user does, killed, and continued by `resume`, which
    is killed, too. When a run is complete the next one starts. `kills_after_record` is the number
    of kills after the first record of a run, `torn` the number of incomplete lines that `tear` has
    written.
    """

    def __init__(self, results: Path) -> None:
        self.results = results
        self.seen: dict[Path, Counter[bytes]] = {}  # complete lines before a kill
        self.kills = self.kills_after_record = self.torn = 0
        self.failures: list[str] = []

    @property
    def folder(self) -> Path | None:
        """The newest run that has a plan; None before the first one."""
        found = sorted(path.parent for path in self.results.glob(f"*/{journal.RUN_FILE}"))
        return found[-1] if found else None

    @property
    def trials(self) -> int:
        """The number of trials whose record was in a file before a kill."""
        return sum(lines.total() for lines in self.seen.values())

    def kill_after(self, seconds: float) -> None:
        """Start or continue a run, and kill it after a time, unless it ends before."""
        with bench_process.running(self._words(), self.results, self._temporary()) as bench:
            try:
                ended = bench.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kills_after_record += self._note()
                bench.kill()
                self.kills += 1
            else:
                self._check(ended)

    def tear(self) -> None:
        """Append a part of a line to the records of an incomplete run, as a crash may."""
        folder = self._incomplete_run()
        lines = [] if folder is None else _lines(folder)
        if folder is not None and lines:
            with (folder / journal.FILE).open("ab") as file:
                file.write(lines[-1][: int(TORN_AT * len(lines[-1]))])
            self.torn += 1

    def complete(self) -> None:
        """Continue the last run until its end."""
        if self._incomplete_run() is None:
            return
        try:
            ended = bench_process.run(self._words(), self.results, self._temporary())
        except subprocess.TimeoutExpired:
            self.failures.append(f"no end within {bench_process.COMPLETE_S:.0f} s")
            return
        self._check(ended)
        folder = self.folder
        is_warned = sum(WARNING in line for line in ended.errors) == 1
        if folder is not None and _corrupt(folder) and not is_warned:
            self.failures.append("no single warning about a torn line")

    def lost(self) -> int:
        """Count the lines that were in a file before a kill, and are not there now."""
        return sum((seen - Counter(_lines(folder))).total() for folder, seen in self.seen.items())

    def corrupt(self) -> int:
        """Count the lines of all runs that are no record, without those that `tear` has written."""
        folders = [path.parent for path in self.results.glob(f"*/{journal.FILE}")]
        return sum(map(_corrupt, folders)) - self.torn

    def _words(self) -> str:
        folder = self._incomplete_run()
        return RUN if folder is None else f"resume:{folder.name}"

    def _temporary(self) -> dict[str, str]:
        """Return the variables for a folder of temporary files: killed processes leave theirs."""
        folder = self.results / "tmp"
        folder.mkdir(exist_ok=True)
        return {"TMPDIR": str(folder)}

    def _incomplete_run(self) -> Path | None:
        """Return the newest run if rounds of it are missing."""
        folder = self.folder
        if folder is None or not journal.is_due(journal.load_plan(folder), folder):
            return None
        return folder

    def _note(self) -> bool:
        """Keep the lines that are complete now; return whether there are any."""
        folder = self.folder
        lines = _lines(folder) if folder is not None else []
        if folder is not None and lines:
            self.seen[folder] = self.seen.get(folder, Counter()) | Counter(lines)
        return bool(lines)

    def _check(self, ended: bench_process.BenchExit) -> None:
        if ended.code not in FINE:
            last = "; ".join(ended.errors[-1:])
            self.failures.append(f"a run ended with exit code {ended.code}: {last}")
        elif self._incomplete_run() is not None:
            self.failures.append(f"{self.folder} has ended, but rounds are missing")


def _lines(folder: Path) -> list[bytes]:
    """Return the complete lines of a run's records."""
    with suppress(FileNotFoundError):
        return (folder / journal.FILE).read_bytes().split(b"\n")[:-1]
    return []


def _corrupt(folder: Path) -> int:
    """Count the lines that are no record, with a last one without an end."""
    lines = (folder / journal.FILE).read_bytes().removesuffix(b"\n").split(b"\n")
    return sum(not _is_record(line) for line in lines if line)


def _is_record(line: bytes) -> bool:
    try:
        from_line(line.decode())
    except (SchemaError, ValueError):
        return False
    return True
