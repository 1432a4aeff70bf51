"""`prefork`, beyond the contract: a crashed worker is replaced, and all share the port."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import ROOT
from tests.http_clients import get
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server

# The first request holds its process until the file `go` is there; all tell which process it was.
HOLDS = """
import os, time
from pathlib import Path
HERE = Path(__file__).parent
def tells():
    try:
        (HERE / "held").touch(exist_ok=False)
    except FileExistsError:
        return str(os.getpid())
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return str(os.getpid())
"""


def test_a_request_waits_for_none_that_another_process_works_on(start: Any, tmp_path: Path) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    running = start("prefork", f"{tmp_path}/holds.py:tells", processes=4)
    pids = {str(pid).encode() for pid in running.facts["worker_pids"]}
    assert len(pids) == 4
    with ThreadPoolExecutor(1) as threads:
        try:
            first = threads.submit(get, running.url)
            assert wait_until((tmp_path / "held").exists)
            others = [get(running.url) for _ in range(20)]
            assert not first.done()
        finally:
            (tmp_path / "go").touch()
        status, holder = first.result(20)
    assert (status, {holder} < pids) == (200, True)
    assert {status for status, _ in others} == {200}
    assert {pid for _, pid in others} <= pids - {holder}


def test_a_process_that_is_killed_is_replaced_and_the_others_go_on(start: Any) -> None:
    running = start("prefork", "noop_sync", processes=2)
    parent = psutil.Process(running.process.pid)
    before = {child.pid for child in parent.children()}
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: len({c.pid for c in parent.children()} - before) == 2)
    assert get(running.url) == (200, b"ok")


def test_a_process_that_dies_in_the_drain_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    process = begin("prefork", f"{tmp_path}/holds.py:tells", "0", SERVER_PROCESSES="1")
    url = read_line(process.stderr).split()[4]
    with ThreadPoolExecutor(1) as threads:
        lost = threads.submit(get, url)
        assert wait_until((tmp_path / "held").exists)
        child = psutil.Process(process.pid).children()[0]
        before = child.num_threads()
        process.terminate()
        assert wait_until(lambda: child.num_threads() > before)  # the thread that limits the drain
        child.kill()
        assert isinstance(lost.exception(20), OSError | http.client.HTTPException)
    code, lines = wait_for_end(process)
    assert (code, lines) == (1, ["a process ended before it had finished its requests"])


def kill_child(pid: int) -> None:
    """Kill one of the two processes of a server, and wait until it is replaced."""
    parent = psutil.Process(pid)
    killed = parent.children()[0].pid
    os.kill(killed, signal.SIGKILL)
    assert wait_until(lambda: len({each.pid for each in parent.children()} - {killed}) == 2)


def test_a_process_is_replaced_although_nobody_reads_the_log() -> None:
    process = begin("prefork", "noop_sync", "0", SERVER_PROCESSES="2")
    try:
        url = read_line(process.stderr).split()[4]
        assert process.stderr is not None
        process.stderr.close()
        kill_child(process.pid)
        assert get(url) == (200, b"ok")
        process.terminate()
        assert process.wait(20) in (0, 120)  # 120: Python itself cannot write the rest
    finally:
        process.kill()
        process.wait(20)


# While the file `crash` is there, each process ends when it is forked, and notes that in `forks`.
CRASHES = """
import os
from pathlib import Path
HERE = Path(__file__).parent
def crash():
    if (HERE / "crash").exists():
        with (HERE / "forks").open("a") as file:
            file.write(".")
        os._exit(1)
os.register_at_fork(after_in_child=crash)
def answers(): return "ok"
"""


def test_processes_that_crash_at_their_start_are_replaced_less_and_less_often(
    start: Any, tmp_path: Path
) -> None:
    (tmp_path / "crashes.py").write_text(CRASHES)
    running = start("prefork", f"{tmp_path}/crashes.py:answers", processes=1)
    (tmp_path / "crash").touch()
    os.kill(psutil.Process(running.process.pid).children()[0].pid, signal.SIGKILL)
    time.sleep(0.7)
    forks = len((tmp_path / "forks").read_text())
    (tmp_path / "crash").unlink()
    assert 1 <= forks <= 6  # one every 0.05 s would be 12 or more
    assert get(running.url) == (200, b"ok")  # it waits in the listen queue


# A stop signal arrives right after a child was reaped.
STOPPED_AT_REAP = """
import os, signal, sys
from offload.serving import main
reaped, wait, waitpid, kill = set(), os.wait, os.waitpid, os.kill
def noted(found):
    if found[0] and not reaped:
        reaped.add(found[0])
        signal.raise_signal(signal.SIGTERM)
    return found
os.wait = lambda: noted(wait())
os.waitpid = lambda *args: noted(waitpid(*args))
def checked(pid, number):
    if pid in reaped and number:  # 0 is a question
        print("signalled a process that was reaped", file=sys.stderr)
    kill(pid, number)
os.kill = checked
sys.exit(main.main(["prefork", "noop_sync", "0"]))
"""


def run(program: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_process_that_was_reaped_gets_no_signal() -> None:
    process = run(STOPPED_AT_REAP, SERVER_PROCESSES="2")
    assert "serves" in read_line(process.stderr)
    os.kill(psutil.Process(process.pid).children()[0].pid, signal.SIGKILL)
    code, lines = wait_for_end(process)
    assert (code, [line for line in lines if "is replaced" not in line]) == (0, [])


# The replacement of a process cannot be forked twice, as at a limit of processes.
CANNOT_FORK = """
import os, sys
from offload.serving import main
fork, forks = os.fork, []
def limited():
    forks.append(fork)
    if len(forks) in (3, 4):
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()
os.fork = limited
sys.exit(main.main(["prefork", "noop_sync", "0"]))
"""


def test_a_process_that_cannot_be_forked_is_forked_later() -> None:
    process = run(CANNOT_FORK, SERVER_PROCESSES="2")
    try:
        url = read_line(process.stderr).split()[4]
        kill_child(process.pid)
        assert get(url) == (200, b"ok")
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate(timeout=20)


# Only the first process can be forked.
CANNOT_START = CANNOT_FORK.replace("in (3, 4)", "> 1")


def test_processes_that_cannot_be_forked_at_the_start_are_a_start_error() -> None:
    code, lines = wait_for_end(run(CANNOT_START, SERVER_PROCESSES="2"))
    assert (code, len(lines)) == (4, 1)
    assert "2 processes do not start (Resource temporarily unavailable)" in lines[0]


# Without a parent-death signal, as on macOS; the children do not get ready.
NEVER_READY = """
import os, sys, time
from offload import prctl
from offload.serving import main
prctl.end_with = lambda parent: None
os.register_at_fork(after_in_child=lambda: time.sleep(60))
sys.exit(main.main(["prefork", "noop_sync", "0"]))
"""


def test_a_start_that_fails_leaves_no_process(mark: Callable[[], list[psutil.Process]]) -> None:
    with run(NEVER_READY, SERVER_PROCESSES="2", SERVER_READY_S="0.5") as process:
        error = read_line(process.stderr)
        assert process.wait(20) == 4
    assert "the processes were not ready" in error
    left = mark()
    for each in left:
        each.kill()
    assert left == []


def test_a_process_that_ends_at_its_start_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "crash").touch()
    (tmp_path / "crashes.py").write_text(CRASHES)
    program = f"""
import sys
from offload.serving import main
sys.exit(main.main(["prefork", "{tmp_path}/crashes.py:answers", "0"]))
"""
    code, lines = wait_for_end(run(program, SERVER_PROCESSES="2"))
    assert (code, len(lines)) == (4, 1)
    assert "a process ended while it started (exit code 1)" in lines[0]
