"""Check that a benchmark that is killed by kill -9 at random points loses nothing.

Usage: python -m scripts.checks.kill_bench [KILLS] [SEED]

A comparison of two servers is started as a user does, and killed after a random time. `fab resume`
continues it, and is killed, too. When the run is complete, the next one starts. After KILLS kills
(default: 200), the last run is completed. Each takes about 10 s. It prints:

Kills      processes that were killed; `While recording`: those after the first record
Trials     trials whose record was in the file before a kill
Lost       trials of these whose record is missing or changed at the end
Corrupt    lines that are no record
Resumed    runs with such trials: each was completed, with all planned rounds

The exit code is 1 if a trial is lost, a line is corrupt, or a run cannot be completed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from offload.bench.planning import plan_file, runs
from offload.bench.records import journal
from offload.bench.records.lines import SchemaError, from_line
from offload.cli import arguments
from offload.reports.tables import text_table
from offload.reports.tables.text_table import Line
from scripts.script import ROOT, run

KILLS = 200
RUN = "compare:2/sleep_short_sync,3/sleep_short_sync,users=2,quick=yes"
LONGEST_S = 20.0  # before a kill: the start and a few rounds
COMPLETE_S = 300.0  # timeout of a run that is not killed
FINE = (0, 7)  # exit codes of a complete run: 7 if the machine was too noisy for a verdict
HEAD = ("Kills", "While recording", "Trials", "Lost", "Corrupt", "Resumed")


class Bench:
    """Runs in one results folder, of which one is measured at a time."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.seen: dict[Path, Counter[bytes]] = {}  # complete lines before a kill
        self.kills = self.recording = 0
        self.failures: list[str] = []

    @property
    def folder(self) -> Path | None:
        """The newest run that has a plan; None before the first one."""
        found = sorted(path.parent for path in self.results.glob(f"*/{plan_file.FILE}"))
        return found[-1] if found else None

    def kill_after(self, seconds: float) -> None:
        """Start or continue a run, and kill it after a time, unless it ends before."""
        process = self._start()
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            before = self._note()
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            self.kills += 1
            self.recording += before
        else:
            self._check(code)

    def complete(self) -> None:
        """Continue the last run until its end."""
        if self._due() is None:
            return
        process = self._start()
        try:
            self._check(process.wait(COMPLETE_S))
        except subprocess.TimeoutExpired:
            self.failures.append(f"the run did not end within {COMPLETE_S:.0f} s")
        finally:
            process.kill()
            process.wait(10)

    def lost(self) -> int:
        """Count the lines that were in a file before a kill, and are not there now."""
        return sum((seen - Counter(_lines(folder))).total() for folder, seen in self.seen.items())

    def corrupt(self) -> int:
        """Count the lines of all runs that are no record, with those without an end."""
        folders = [path.parent for path in self.results.glob(f"*/{journal.FILE}")]
        return sum(not _is_record(line) for folder in folders for line in _lines(folder, True))

    def _start(self) -> subprocess.Popen[bytes]:
        due = self._due()
        fab = str(Path(sys.executable).with_name("fab"))
        return subprocess.Popen(
            [fab, RUN if due is None else f"resume:{due.name}"],
            cwd=ROOT,
            env={**os.environ, "RESULTS": str(self.results), "PICTURES": "no"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _due(self) -> Path | None:
        """Return the newest run if rounds of it are missing."""
        folder = self.folder
        if folder is None or not runs.is_due(plan_file.load(folder), folder):
            return None
        return folder

    def _note(self) -> bool:
        """Keep the lines that are complete now; return whether there are any."""
        folder = self.folder
        lines = _lines(folder) if folder is not None else []
        if folder is not None and lines:
            self.seen[folder] = self.seen.get(folder, Counter()) | Counter(lines)
        return bool(lines)

    def _check(self, code: int) -> None:
        if code not in FINE:
            self.failures.append(f"a run ended with exit code {code}")
        elif self._due() is not None:
            self.failures.append(f"{self.folder} has ended, but rounds are missing")


def main(words: list[str]) -> int:
    """Kill, resume, and print the counts."""
    kills = arguments.whole_number("KILLS", words[0], 1, 10_000) if words else KILLS
    seed = arguments.whole_number("SEED", words[1], 0, 2**31) if words[1:] else 1
    times = random.Random(seed)  # noqa: S311 - reproducible, not secret
    with tempfile.TemporaryDirectory(prefix="kill-bench-") as name:
        # Processes that are killed leave their temporary files: they are removed with this folder.
        os.environ["TMPDIR"] = name
        results = Path(name, "results")
        journal.RESULTS = results
        bench = Bench(results)
        while bench.kills < kills and not bench.failures:
            bench.kill_after(times.uniform(0.0, LONGEST_S))
            print(f"\r{bench.kills} of {kills}", end="", file=sys.stderr, flush=True)
        bench.complete()
        print(file=sys.stderr)
        lost, corrupt = bench.lost(), bench.corrupt()
        trials = sum(seen.total() for seen in bench.seen.values())
        row = (bench.kills, bench.recording, trials, lost, corrupt, len(bench.seen))
    print(text_table.render(HEAD, [Line(tuple(map(str, row)))]))
    for failure in bench.failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if lost or corrupt or bench.failures else 0


def _lines(folder: Path, with_torn: bool = False) -> list[bytes]:
    """Return the lines of a run's records; the last one only if it has an end, or `with_torn`."""
    try:
        *lines, torn = (folder / journal.FILE).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    return [*lines, torn] if with_torn and torn else lines


def _is_record(line: bytes) -> bool:
    try:
        from_line(line.decode())
    except (SchemaError, ValueError):
        return False
    return True


if __name__ == "__main__":
    run(main)
