"""A worker whose parent ends before the worker has requested its signal ends, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from offload.serving.lifecycle import worker_ready
from tests import ROOT
from tests.waiting import read_line

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's"),
]
# The parent is killed right after the fork, before the child goes on.
KILLED_AT_FORK = """
import os, signal, sys, time
from offload.serving import main
fork = os.fork
def killed():
    parent = os.getpid()
    pid = fork()
    if pid == 0:
        os.kill(parent, signal.SIGKILL)
        while os.getppid() == parent:
            time.sleep(0.01)
        print(os.getpid(), file=sys.stderr, flush=True)
    return pid
os.fork = killed
main.main(["prefork", "noop_sync", "0"])
"""


def test_a_forked_process_whose_parent_is_gone_does_not_serve() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_AT_FORK],
        cwd=ROOT,
        env={**os.environ, "SERVER_PROCESSES": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    orphan = int(read_line(process.stderr))
    try:
        process.communicate(timeout=20)  # its stderr is open for as long as the orphan lives
    finally:
        with suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_worker_reports_only_to_a_parent_that_lives(tmp_path: Path, is_alive: bool) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(20)
    parent = os.getpid() if is_alive else gone.pid
    known = {worker_ready.FOLDER: str(tmp_path), worker_ready.TASK: "noop_sync"}
    words = "from offload.serving.lifecycle import worker_ready; worker_ready.report()"
    worker = subprocess.run(
        [sys.executable, "-c", words],
        cwd=ROOT,
        env={**os.environ, **known, worker_ready.PARENT: str(parent)},
        timeout=20,
    )
    assert (worker.returncode, len([*tmp_path.iterdir()])) == ((0, 1) if is_alive else (1, 0))
