"""What can go wrong before a server listens: one line, its own exit code, and nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import catalog
from tests.conftest import wait_until

POOLS = [name for name, entry in catalog.servers().items() if "workers" in entry.settings]


def begin(*words: str, limit: str = "", **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*(["prlimit", limit] if limit else []), sys.executable, "-m", "servers", *words],
        cwd=catalog.ROOT,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def said_by(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    lines = process.communicate(timeout=20)[1].splitlines()
    return process.returncode, lines


def test_an_import_that_never_returns_ends_the_start_in_time(tmp_path: Path, mark: Any) -> None:
    (tmp_path / "blocks.py").write_text(
        "import threading\nthreading.Event().wait()\ndef f(): ...\n"
    )
    began = time.monotonic()
    processes = [begin(name, f"{tmp_path}/blocks.py:f", "0") for name in POOLS]
    for process in processes:
        code, lines = said_by(process)
        assert (code, len(lines)) == (4, 1)
        assert "not ready within 10 s" in lines[0]
    assert time.monotonic() - began < 15
    assert wait_until(lambda: not mark(), 3)


def test_threads_that_cannot_be_started_are_one_line() -> None:
    process = begin("threads", "noop_sync", "0", limit="--as=600000000", SERVER_WORKERS="200")
    code, lines = said_by(process)
    assert (code, len(lines)) == (4, 1)
    assert "200 workers do not start (can't start new thread)" in lines[0]


def test_processes_that_cannot_be_started_are_a_start_error(mark: Any) -> None:
    process = begin("processes", "noop_sync", "0", limit="--nofile=40", SERVER_WORKERS="100")
    code, lines = said_by(process)
    assert code == 4
    assert any("100 workers do not start ([Errno 24] Too many open" in line for line in lines)
    assert wait_until(lambda: not mark(), 3)
