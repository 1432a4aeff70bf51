"""How a server ended is seen, also if nobody has reaped it, or if its task wrote too much."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from offload.engine import server
from offload.errors import StartError
from offload.suites import Case
from tests.http_clients import get
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server
WRITES = """
import os
def quote():
    os.write(int(os.environ["SERVER_READY_FD"]), b"7\\njunk\\n")
    return b"42"
"""


REAPS_NO_CHILD = """
import os, sys, time
if not (pid := os.fork()):
    time.sleep(float(sys.argv[1]))
    os._exit(0)
print(pid, flush=True)
time.sleep(30)
"""


@pytest.mark.parametrize(("seconds", "expected"), [("0", "the server ended"), ("30", None)])
def test_a_zombie_has_ended(seconds: str, expected: str | None) -> None:
    words = [sys.executable, "-c", REAPS_NO_CHILD, seconds]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
        child = psutil.Process(int(read_line(parent.stdout)))
        try:
            if seconds == "0":
                assert wait_until(lambda: child.status() == psutil.STATUS_ZOMBIE)
            assert server.exit_reason(child.pid) == expected
        finally:
            child.kill()
            parent.kill()


def test_a_task_that_writes_to_the_pipe_of_its_server_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "wild.py"
    file.write_text(f"{WRITES}quote()\n")
    with pytest.raises(StartError, match="wrote to the pipe of its server: let it write only to"):
        server.start(Case("threads", f"{file}:quote"), {})


def test_a_server_whose_task_wrote_to_its_pipe_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "wild.py"
    file.write_text(WRITES)
    running = server.start(Case("threads", f"{file}:quote"), {})
    try:
        assert get(running.url) == (200, b"42")
    finally:
        server.stop(running)
    assert (running.process.returncode, running.ending) == (0, {})


def test_only_the_end_of_a_long_output_is_quoted(tmp_path: Path) -> None:
    file = tmp_path / "prints.py"
    file.write_text(
        "import os\nos.write(2, b'x' * 1_000_000)\nos.kill(os.getpid(), 9)\ndef quote(): ...\n"
    )
    with pytest.raises(StartError, match=r"ended before it was ready \(xxx") as raised:
        server.start(Case("threads", f"{file}:quote"), {})
    assert len(str(raised.value)) < 2000
