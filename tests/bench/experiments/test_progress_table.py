"""The table of a run on a terminal, and its progress in a file."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from offload.engine.progress import (
    HEAD,
    PROGRESS_FILE,
    CaseRow,
    CaseRows,
    Progress,
    ProgressTable,
    RunProgress,
    read_progress,
)
from offload.engine.record import LONG
from offload.suites import Case
from tests.bench.experiments.test_progress import CASES, PLAN, window
from tests.records import changed, new_record
from tests.waiting import wait_until


class Terminal:
    """A terminal that shows what is written to it, as long as `is_read`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._main, other = pty.openpty()
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "90")
        patch.setenv("LINES", "20")
        for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            patch.delenv(name, raising=False)
        self._stream = os.fdopen(other, "w")
        self._patch, self._old = patch, sys.stderr
        patch.setattr(sys, "stderr", self._stream)
        self.text = ""
        self.is_read = threading.Event()
        self.is_read.set()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while self.is_read.wait(60):
            try:
                if not (content := os.read(self._main, 4096)):
                    return
            except OSError:  # closed
                return
            self.text += content.decode(errors="replace")

    def fill(self) -> None:
        """Stop reading, and write until there is no more room."""
        self.is_read.clear()
        os.set_blocking(self._stream.fileno(), False)
        for _ in range(2):  # the thread may take one more part after the first time
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(self._stream.fileno(), b"x" * 100)
            time.sleep(0.1)
        os.set_blocking(self._stream.fileno(), True)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.setattr(sys, "stderr", self._old)
        self.is_read.set()
        self._stream.close()
        self._thread.join(20)
        os.close(self._main)


def test_a_terminal_shows_each_case_with_its_phase_and_its_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Terminal(monkeypatch) as terminal, Progress(PLAN, [window(0, 100.0)]) as progress:
        progress.begin("round 2", PLAN.title(0), [0, 1])
        progress.phase("load", 9.0, 1)
        progress.done([window(0, 110.0, number=2), window(1, 50.0, number=2)])
        assert wait_until(lambda: "50.00" in terminal.text)
        shown = terminal.text
    lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown).replace("\r", "").splitlines()
    [threads, processes, loop] = [line.split() for line in lines[-4:-1]]
    assert threads[:3] == ["3/noop_sync", "wait", "2"]
    assert re.fullmatch(r"104\.9 \([\d.]+ to [\d.]+\)", " ".join(threads[3:7]))
    assert processes[:4] == ["4/noop_sync", "load", "1", "50.00"]
    assert loop[:4] == ["2/sleep_sync", "-", "0", "-"]
    assert re.match(r"\[round 2\] .*: load, \d s; about .* left", lines[-1])


def test_a_terminal_is_updated_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal, Progress(PLAN, []) as progress:
        progress.begin("round 1", PLAN.title(0), [0, 1])
        started = time.monotonic()
        while time.monotonic() - started < 2.2:
            progress.phase("load", 1.0, 1)
            time.sleep(0.05)
        frames, elapsed_s = terminal.text.count(HEAD[0]), time.monotonic() - started
    assert 1 <= frames <= elapsed_s + 2  # the first one, and one a second; there are 40 phases


def test_a_terminal_that_is_not_read_delays_no_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal, Progress(PLAN, []) as progress:
        terminal.fill()  # as by Ctrl-S
        time.sleep(1.2)  # now the table waits until it can be drawn
        started = time.monotonic()
        for number in range(5):
            progress.begin(f"round {number}", PLAN.title(0), [0, 1])
            progress.phase("load", 1.0, 1)
            progress.done([window(0, 110.0, number=number), window(1, 50.0, number=number)])
        assert time.monotonic() - started < 15
        terminal.is_read.set()


def test_a_problem_and_a_retry_have_lines_above_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal, Progress(PLAN, []) as progress:
        progress.begin("round 1", PLAN.title(1), [2])
        progress.done([window(2, 7.0)])
        progress.done([window(2, 0.0, problem="the server died")])
    assert "2/sleep_sync: 7.00" not in terminal.text
    assert "[round 1] 2/sleep_sync: the server died" in terminal.text


def test_a_dumb_terminal_has_a_line_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal:
        monkeypatch.setenv("TERM", "dumb")
        with Progress(PLAN, []) as progress:
            progress.begin("round 1", PLAN.title(1), [2])
            progress.done([window(2, 7.0)])
        assert wait_until(lambda: "[round 1] 2/sleep_sync: 7.00/s" in terminal.text)
        assert "[round 1] 2/sleep_sync; about" in terminal.text
        assert "\x1b" not in terminal.text


def test_a_pipe_has_a_line_for_each_step_also_if_colours_are_forced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Progress(PLAN, []) as progress:
        progress.begin("round 1", PLAN.title(1), [2])
        progress.done([window(2, 7.0)])
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("[round 1] 2/sleep_sync; about ")
    assert last == "[round 1] 2/sleep_sync: 7.00/s"


def test_rows_that_do_not_fit_are_around_those_that_are_measured_now() -> None:
    rows = [CaseRow(f"case {number}") for number in range(30)]
    table = ProgressTable(rows, lambda n: "load" if n == 17 else "", lambda: "the end")
    lines = [text for text, _ in table.lines(12)]
    assert len(lines) == 11
    assert sum(line.startswith("case ") for line in lines) == 8
    assert any(line.startswith("case 17 ") for line in lines)
    assert lines[-2:] == ["rows 16 to 23 of 30", "the end"]
    assert [text for text, _ in table.lines(100)][30].startswith("case 29")


@pytest.mark.parametrize("name", ["\u4f60" * 100, "\x1b[2J\nx"])
def test_a_hostile_name_stays_in_its_column(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plan = replace(PLAN, cases=(Case("loop", name), *CASES[1:]))
    with Terminal(monkeypatch) as terminal, Progress(plan, []) as progress:
        progress.begin("round 1", "x", [1])
        assert wait_until(lambda: "4/noop_sync" in terminal.text)
        shown = terminal.text
    lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown).replace("\r", "").splitlines()
    assert "\x1b[2J" not in shown
    assert max(map(cell_len, lines)) <= 90
    assert lines[2].startswith("4/noop_sync")


def test_a_record_that_is_not_of_the_plan_has_a_row_of_its_own() -> None:
    rows = CaseRows(CASES[:1])
    other = changed(new_record(CASES[2], "run"), kind=LONG, rate=3.0)
    rows.add([other, other, changed(new_record(CASES[0], "run"), kind=LONG, rate=14.0)])
    assert [(row.name, row.cells[1]) for row in rows.rows] == [
        ("3/noop_sync", "14.00"),
        ("loop/sleep_sync", "3.00"),
    ]


# The file


def test_the_file_has_the_phase_until_the_run_ends(tmp_path: Path) -> None:
    with Progress(PLAN, [], tmp_path) as progress:
        assert (found := read_progress(tmp_path)) is not None
        assert (found.phase, found.is_running) == ("start", True)
        progress.begin("round 1", PLAN.title(0), [0, 1])
        progress.phase("load", 2.0, 1)
        found = read_progress(tmp_path)
        assert found is not None
        assert [found.phase_of(place) for place in (0, 1, 2)] == ["wait", "load", ""]
        assert 1 < found.phase_ends - time.time() <= 2
        assert found.ends - time.time() > 10
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"[" * 90_000, b"\xff"])
def test_a_broken_file_is_no_progress(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PROGRESS_FILE).write_bytes(content)
    assert read_progress(tmp_path) is None


def test_a_run_goes_on_if_the_file_cannot_be_written(tmp_path: Path) -> None:
    with Progress(PLAN, [], tmp_path / "removed") as progress:
        progress.phase("load", 1.0)
    assert not (tmp_path / "removed").exists()


@pytest.mark.parametrize("pid", [-1, 0, 2**31, 2**70])
def test_a_pid_of_no_process_does_not_run(pid: int) -> None:
    assert not RunProgress(pid, 0.0, "", "", 0.0, 0.0).is_running
