"""The page in its own process: no run waits for it, and it outlives the run."""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from offload.cli import runner
from offload.documents import live
from offload.documents.live import RowsPipe
from offload.documents.live.view import MOST_ROWS, PipeView
from offload.engine import journal, sockets
from offload.engine.progress import (
    Progress,
    RunProgress,
    announce_run,
    newest_running,
    remove_progress,
    write_progress,
)
from offload.errors import StartError, UsageError
from tests.commands import fab_here
from tests.reports.live.serving import PLAN, Events, answer, finish, launched, new_run
from tests.waiting import is_running, wait_until
from tests.watched import SLEEPING, running

pytestmark = pytest.mark.server
PLAN_HERE = replace(PLAN, cases=PLAN.cases[:2], blocks=PLAN.blocks[:1])


def test_a_run_with_twenty_streams_ends_without_waiting_and_its_page_survives_it(
    tmp_path: Path,
) -> None:
    folder = new_run(tmp_path / "run")
    with launched(folder, idle_s=1.0) as page, ExitStack() as stack:
        process = psutil.Process(page.pid)
        assert process.nice() == 19
        assert page.url.split("/")[3] not in " ".join(process.cmdline())
        assert os.getsid(page.pid) != os.getsid(0)
        streams = [stack.enter_context(Events(page.url)) for _ in range(20)]
        with Progress(PLAN, [], folder) as progress:
            progress.begin("round 1", PLAN.title(0), [0, 1])
            progress.phase("load", 1.0, 0)
            for stream in streams:
                stream.until(lambda view: view["phase"] == "load")
            process.send_signal(signal.SIGSTOP)  # it could not answer anybody
            started = time.monotonic()
            progress.phase("stop", 1.0)
        finish(folder)
        assert time.monotonic() - started < 5
        process.send_signal(signal.SIGCONT)
        for stream in streams:
            stream.until(lambda view: view["has_report"])
        assert answer(page.url, "report")[2] == (folder / "report.html").read_bytes()
        stack.close()
        assert wait_until(lambda: not is_running(process))


def test_a_warning_before_the_address_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those that PYTHONWARNINGS=always prints while packages are imported."""
    warning = "import sys; print('a warning', file=sys.stderr, flush=True)"
    (tmp_path / "sitecustomize.py").write_text(warning)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with launched(new_run(tmp_path / "run"), idle_s=1.0) as page:
        assert answer(page.url)[0] == 200


def test_rows_go_through_a_pipe_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def open_rows(title: str, idle_s: float, descriptor: int) -> live.LivePage:
        read.append(os.dup(descriptor))
        return live.LivePage("http://127.0.0.1:1/x/", 1)

    monkeypatch.setattr(live, "open_rows", open_rows)
    rows = RowsPipe("watch", ("time", "rho", "by pid"), 60.0)
    for number in range(5000):  # more than the pipe has room for, and nothing is read yet
        rows.send((str(number), "0.5", "x" * 50))
    view = PipeView("watch", read[0])
    first = view.read()
    assert first.head == ("time", "rho", "by pid")
    numbers = [int(row[0]) for row in reversed(first.rows)]
    assert numbers == [*range(numbers[0], numbers[0] + MOST_ROWS)]  # whole rows in their order
    rows.send(("5000", "0.6", ""))  # the end of the row of which a part was sent comes first
    rows.send(("5001", "0.7", ""))
    rows.close(["ended"])
    last = view.read()
    assert (last.state, last.lines, last.rows[0][0]) == ("ended", ("ended",), "5001")
    os.close(read[0])


def test_rows_of_a_page_whose_server_has_ended_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "open_rows", lambda *_: live.LivePage("", 1))
    rows = RowsPipe("watch", ("time",), 60.0)
    with pytest.raises(BrokenPipeError):  # its other end is closed
        os.write(rows._pipe, b"x")
    rows.send(("1",))
    rows.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(rows._pipe)


@pytest.mark.slow
def test_watch_shows_its_rows_on_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("elftools", reason="make setup installs pyelftools")
    monkeypatch.setenv("BROWSER", "true")
    with running(SLEEPING) as process:
        said = fab_here(f"watch:{process.pid},seconds=2,open=yes")
    assert said.returncode == 0, said.stderr
    [url] = re.findall(r"live page: (\S+)", said.stderr)
    with ended_in_the_end(int(urllib.parse.urlsplit(url).port or 0)), Events(url) as events:
        view = events.until(lambda view: view["state"] == "ended")
        page = answer(url)[2].decode()
    assert view["head"][:3] == ["time", "CPU", "PSS MiB"]
    assert [row[0] for row in view["rows"]] == ["2 s", "1 s"]
    assert view["lines"][0] == "2 readings in 2 s."
    assert f"<h1>pid {process.pid} (python" in page


@contextmanager
def ended_in_the_end(port: int) -> Iterator[None]:
    """End the process that listens on a port."""
    [pid] = sockets.listening_roots(port)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


def test_the_command_serves_the_newest_run_until_nobody_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LIVE_MINUTES", "0.01")
    for name in ("20260101-000000-measure", "20260102-000000-measure"):
        finish(new_run(journal.RESULTS / name))
    said = fab_here("live")
    assert (said.returncode, said.stderr) == (0, "")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/\n", said.stdout)


@pytest.mark.parametrize(
    ("words", "minutes", "code", "message"),
    [
        ("live:nosuch", "", 6, "no run 'nosuch' in "),
        ("live", "", 6, "no run in "),
        ("live", "soon", 2, "LIVE_MINUTES='soon' is not a number from 0.01 to 1440"),
        ("watch:1,open=yes", "0", 2, "LIVE_MINUTES='0' is not a number"),
        ("measure:3/noop_sync,open=yes", "0", 2, "LIVE_MINUTES='0' is not a number"),
        ("compare:3/noop_sync,4/noop_sync,open=yes", "0", 2, "LIVE_MINUTES='0' is not a number"),
        ("scale:3/noop_sync,workers=1..64,open=yes", "0", 2, "LIVE_MINUTES='0' is not a number"),
        ("gil:noop_sync,open=yes", "0", 2, "LIVE_MINUTES='0' is not a number"),
        ("advise:noop_sync,open=yes", "0", 2, "LIVE_MINUTES='0' is not a number"),
        ("advise:app=shop.web:app,open=yes", "0", 2, "LIVE_MINUTES='0' is not a number"),
        ("compare_runs:main,open=yes", "", 2, "open= needs against=, which measures now"),
    ],
)
def test_a_wrong_word_is_one_line(
    monkeypatch: pytest.MonkeyPatch, words: str, minutes: str, code: int, message: str
) -> None:
    monkeypatch.setenv("LIVE_MINUTES", minutes)
    said = fab_here(words)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (code, "", 1)
    assert message in said.stderr


def test_the_newest_run_that_is_measured_now_is_found() -> None:
    older, newer = (new_run_in_results(f"2026010{day}-000000-measure") for day in (1, 2))
    assert newest_running() is None
    announce_run(older)
    assert newest_running() == older
    write_progress(newer, RunProgress(1, 0.0, "", "start", 0.0, 0.0))
    assert newest_running() == older  # pid 1 did not start at 0
    remove_progress(older)
    assert newest_running() is None


def new_run_in_results(name: str) -> Path:
    journal.RESULTS.mkdir(exist_ok=True)
    return new_run(journal.RESULTS / name)


def test_a_page_that_does_not_start_is_a_warning_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(folder: Path, idle_s: float) -> live.LivePage:
        raise StartError("the live page did not start: no message")

    monkeypatch.setattr(live, "open_run", fails)
    monkeypatch.setattr(runner, "continue_run", lambda *_: [])
    folder, _ = runner.start_run(PLAN_HERE, is_opened=True)
    assert folder.is_dir()
    assert "warning: the live page did not start: no message" in capsys.readouterr().err


def test_without_a_browser_the_address_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in runner.GRAPHICAL:
        monkeypatch.delenv(name, raising=False)
    runner.show_page("http://127.0.0.1:1/x/")
    assert capsys.readouterr().err.splitlines() == [
        "live page: http://127.0.0.1:1/x/",
        "warning: no browser was found: open the address in one",
    ]


def test_a_browser_that_stays_in_the_foreground_delays_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It does not inherit the streams of the command either, which would keep a pipe open."""
    script, opened = tmp_path / "browser", tmp_path / "opened"
    streams = "$(readlink /proc/$$/fd/0 /proc/$$/fd/2)"
    line = f'echo "$$ $1 "{streams} > {opened}.new; mv {opened}.new {opened}; exec sleep 60'
    script.write_text(f"#!/bin/sh\n{line}\n")
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{script} %s")
    monkeypatch.setattr(runner, "BROWSER_S", 0.1)
    runner.show_page("http://127.0.0.1:1/x/")
    assert capsys.readouterr().err == "live page: http://127.0.0.1:1/x/\n"
    wait_until(opened.exists, 20)
    pid, url, *files = opened.read_text().split()
    os.kill(int(pid), signal.SIGKILL)
    assert (url, files) == ("http://127.0.0.1:1/x/", ["/dev/null", "/dev/null"])


def test_a_setting_is_checked_before_a_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVE_MINUTES", "-1")
    with pytest.raises(UsageError):
        runner.start_run(PLAN_HERE, is_opened=True)
    assert not journal.RESULTS.exists() or not [*journal.RESULTS.iterdir()]
