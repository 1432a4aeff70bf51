"""`offload watch` of real processes: its output, how it ends, and which arguments it rejects."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from offload.engine import running_servers, server, sockets
from offload.engine.server import find_interpreter
from offload.errors import UsageError
from offload.studies.watch import document
from tests import ROOT, commands
from tests.commands import FAB, fab, fab_here
from tests.waiting import read_line
from tests.watched import BUSY, SLEEPING, running

pytest.importorskip("elftools", reason="make setup installs pyelftools")

pytestmark = pytest.mark.server
Start = Callable[..., server.Server]
LINE = re.compile(r" +\d+ s +\d+\.\d\d +\d+\.\d +\d+ +\d+ +\d+ +~?\d\.\d\d")


def test_a_line_a_second_and_what_the_figures_mean() -> None:
    with running(BUSY) as process:
        said = fab(f"watch:{process.pid},seconds=4")
    assert said.returncode == 0, said.stderr
    head, *lines = said.stdout.splitlines()
    assert head.split()[:3] == ["time", "CPU", "PSS"]
    assert [bool(LINE.match(line)) for line in lines[:4]] == [True] * 4
    assert "mean (maximum) of 4 readings in 4 s" in said.stdout
    assert f"watching pid {process.pid} (" in said.stderr
    assert "rho: the share of the time in which the GIL is held" in said.stderr
    if "~" not in said.stdout:  # else the machine was too busy for a sentence
        assert f"The GIL of pid {process.pid} is held 100 % of the time" in said.stdout


def test_ctrl_c_is_the_usual_end() -> None:
    with running(SLEEPING) as process:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        watching = subprocess.Popen([FAB, f"watch:{process.pid}"], cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
        try:
            read_line(watching.stdout)
            assert LINE.match(read_line(watching.stdout))
            watching.send_signal(signal.SIGINT)
            out, err = watching.communicate(timeout=20)
        finally:
            watching.kill()
            watching.communicate(timeout=20)
        assert process.poll() is None  # the watched process goes on
    assert (watching.returncode, err.count("\n"), document.LEGEND in err) == (0, 2, True)
    assert "mean (maximum) of" in out


def test_ctrl_c_while_a_line_is_written_leaves_no_half_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(io.StringIO):
        """A stream that is interrupted after each write of a reading."""

        def write(self, text: str) -> int:
            written = super().write(text)
            if '"reading"' in text:
                raise KeyboardInterrupt
            return written

    monkeypatch.setattr(commands.io, "StringIO", Interrupted)
    with running(SLEEPING) as process:
        said = fab_here(f"watch:{process.pid},format=json")
    assert said.returncode == 0
    kinds = [json.loads(line)["type"] for line in said.stdout.splitlines()]
    assert kinds == ["reading", "summary"]


def test_a_process_that_ends_ends_the_watch_with_its_summary() -> None:
    code = "import sys, time; print(flush=True); sys.stdin.readline(); time.sleep(1.5)"
    with running(code) as process:
        print(file=process.stdin, flush=True)
        said = fab_here(f"watch:{process.pid}")
    lines = said.stderr.splitlines()
    assert said.returncode == 5
    assert re.fullmatch(
        rf"error: pid {process.pid} ended after \d s: start it again, .*", lines[-1]
    )
    assert "mean (maximum) of" in said.stdout


def test_json_is_an_object_a_line_and_documented(start: Start) -> None:
    running_server = start("processes", "noop_sync", workers=2)
    said = fab_here(
        f"watch:{running_server.facts['pid']},seconds=2,format=json,url={running_server.url}"
    )
    assert said.returncode == 0, said.stderr
    *readings, summary = (json.loads(line) for line in said.stdout.splitlines())
    assert [each["type"] for each in (*readings, summary)] == ["reading", "reading", "summary"]
    pids = {each["pid"] for each in readings[1]["processes"]}
    assert {*running_server.facts["worker_pids"]} < pids  # type: ignore[misc]
    assert readings[1]["tree"]["processes"] == len(pids)
    assert readings[1]["response"]["status"] == 200
    assert 0 < summary["response_s"]["mean"] <= summary["response_s"]["max"] < 20
    objects = (readings[1], readings[1]["tree"], *readings[1]["processes"], readings[1]["response"])
    keys = {key for each in (*objects, summary) for key in each}
    assert keys - documented_keys() == set()


def documented_keys() -> set[str]:
    """Return the first column of the tables of the last section of docs/reference.rst."""
    text = (ROOT / "docs" / "reference.rst").read_text().partition("\nJSON of watch\n")[2]
    return {word for line in text.splitlines() for word in re.findall(r"[a-z_]+", line[:21])}


def test_the_response_time_of_a_url_is_in_each_line(start: Start) -> None:
    running_server = start("threads", "sleep_short_sync")
    said = fab_here(f"watch:url={running_server.url},seconds=2")  # it finds the pid
    assert f"watching pid {running_server.facts['pid']} (" in said.stderr
    assert re.search(r" 2 s .* \d+\.\d ms", said.stdout)
    [summary] = re.findall(r"response: (\d+\.\d) ms .* requests, 0 failed", said.stdout)
    assert 50 <= float(summary) < 5000


@pytest.mark.slow
def test_a_free_threaded_python_has_no_gil_instead_of_a_rho() -> None:
    try:
        python = find_interpreter("3.13t")
    except UsageError as error:
        pytest.skip(f"{error}, then make test-all")
    with running(BUSY, python, {"PYTHON_GIL": "0"}) as process:
        said = fab_here(f"watch:{process.pid},seconds=3")
    assert said.stdout.count("no GIL") == 4  # each line, and the sentence
    assert f"Pid {process.pid} has no GIL, so its threads can use several cores" in said.stdout


def test_the_pid_of_a_url_is_that_of_the_parent_of_all_workers(start: Start) -> None:
    facts = start("prefork", "noop_sync").facts
    assert sockets.listening_roots(int(str(facts["port"]))) == (facts["pid"],)


# What it refuses


def refused(words: str) -> tuple[int, str]:
    said = fab_here(words)
    assert said.stdout == ""
    assert said.stderr.count("\n") == 1, said.stderr
    return said.returncode, said.stderr.strip()


def test_a_program_that_is_no_python_is_refused_unless_requested() -> None:
    sleeping = subprocess.Popen(["sleep", "60"])
    try:
        assert refused(f"watch:{sleeping.pid}") == (
            2,
            f"error: pid {sleeping.pid} (sleep) is not a Python process: use the pid of the Python "
            "server; without_gil=yes watches the rest",
        )
        said = fab_here(f"watch:{sleeping.pid},without_gil=yes,seconds=1")
    finally:
        sleeping.kill()
        sleeping.wait(20)
    assert said.returncode == 0
    assert f"no rho: pid {sleeping.pid} (sleep) is not a Python process" in said.stderr
    assert said.stdout.splitlines()[1].split()[-1] == "-"


def test_the_name_of_a_program_cannot_control_a_terminal(tmp_path: Path) -> None:
    program = tmp_path / "a\x1b[2Jb"
    shutil.copy(shutil.which("sleep") or "", program)
    sleeping = subprocess.Popen([program, "60"])
    try:
        said = fab_here(f"watch:{sleeping.pid},without_gil=yes,seconds=1")
    finally:
        sleeping.kill()
        sleeping.wait(20)
    assert said.returncode == 0
    assert r"(a\x1b[2Jb) is not a Python process" in said.stderr
    assert "\x1b" not in said.stderr + said.stdout


def test_a_pid_of_no_process_is_refused() -> None:
    ended = subprocess.Popen(["true"])
    assert ended.wait(20) == 0
    expected = f"error: no process has pid {ended.pid}: ps -ef lists the pids"
    assert refused(f"watch:{ended.pid}") == (2, expected)


def test_a_process_that_waits_for_its_parent_has_ended() -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    try:
        expected = f"error: pid {zombie.pid} has ended: ps -ef lists the pids"
        assert refused(f"watch:{zombie.pid}") == (2, expected)
    finally:
        zombie.wait(20)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("watch:x", 2, "pid='x' is not a whole number from 1 to 4194304"),
        ("watch:1,seconds=0", 2, "seconds='0' is not a time from 1 s"),
        ("watch:1,format=xml", 2, "no 'xml' in format="),
        ("watch", 3, "no server is running"),
        ("watch:url=http://127.0.0.1:9/", 2, "serves http://127.0.0.1:9/ was not found: add pid="),
        ("watch:url=https://example.org", 2, "serves https://example.org was not found: add pid="),
        (f"watch:{os.getppid()},url=example.org", 2, "url='example.org' is not a URL: write url="),
        (f"watch:{os.getppid()},url=ftp://x/", 2, "url='ftp://x/' is not a URL"),
        (f"watch:{os.getppid()},url=http://x:0/", 2, "url='http://x:0/' is not a URL"),
        (f"watch:{os.getppid()},url=http://a..b/", 2, "url='http://a..b/' is not a URL"),
    ],
)
def test_a_wrong_word_is_one_line(words: str, code: int, message: str) -> None:
    found = refused(words)
    assert found[0] == code
    assert message in found[1]


@pytest.mark.parametrize("content", ['{"pid": %d}', '{"pid": %d, "port": "x"}', "[%d]"])
def test_a_file_that_describes_no_server_is_a_warning(content: str) -> None:
    running_servers.facts_file(9).write_text(content % os.getpid())
    said = fab_here("watch")
    assert (said.returncode, said.stdout) == (3, "")
    warning, error = said.stderr.splitlines()
    assert warning.startswith("warning: ") and "9.json does not describe a server (" in warning
    assert error.startswith("error: no server is running: ")
