"""What can go wrong before a server listens: one line, its own exit code, and nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import catalog
from bench import ready, server
from errors import StartError
from suites import Case
from tests.installed import POOLS, SERVERS, param
from tests.waiting import wait_until


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


def test_a_server_that_listens_and_does_not_say_so_is_told_how(
    a_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a_copy / "servers" / "silent.py").write_text(
        "import signal, socket\ndef serve(task: str, port: int) -> None:\n"
        "    with socket.create_server(('127.0.0.1', port)):\n        signal.pause()\n"
    )
    monkeypatch.setattr(catalog, "ROOT", a_copy)
    monkeypatch.setattr(ready, "READY", 5.0)
    with pytest.raises(StartError, match=r"it listens and .*: call servers\._ready\.announce"):
        server.start(Case("silent", "noop_sync"), {})


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


@pytest.mark.parametrize("name", [param("anyio_threads"), param("starlette_threads")])
def test_a_worker_that_does_not_start_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("raise BaseException('odd')\ndef f(): ...\n")
    code, lines = said_by(begin(name, f"{tmp_path}/odd.py:f", "0", SERVER_WORKERS="1"))
    assert (code, lines) == (4, ["error: a worker did not start: BaseException('odd')"])


@pytest.mark.parametrize("name", SERVERS)
def test_facts_that_cannot_be_written_are_one_line(name: str, tmp_path: Path) -> None:
    code, lines = said_by(begin(name, "noop_sync", "0", SERVER_FILE=f"{tmp_path}/no/8000.json"))
    assert (code, len(lines)) == (6, 1)
    assert "No such file or directory: mend its rights" in lines[0]


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("workers", "0", "from 1 to 256"),
        ("workers", "257", "from 1 to 256"),
        ("workers", "9" * 5000, "from 1 to 256"),
        ("workers", "\u0664", "from 1 to 256"),
        ("backlog", "-1", "from 1 to 65535"),
        ("backlog", "65536", "from 1 to 65535"),
        ("start_method", "x\ny", "not one of"),
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_a_setting_out_of_bounds_is_a_usage_error(setting: str, value: str, says: str) -> None:
    process = begin("processes", "noop_sync", "0", **{f"SERVER_{setting.upper()}": value})
    code, lines = said_by(process)
    assert (code, len(lines)) == (2, 1)
    assert f"{setting}=" in lines[0]
    assert says in lines[0]


@pytest.mark.parametrize("port", ["65536", "-1", "9" * 5000, "\u0668\u0660", "", "http"])
def test_a_port_out_of_bounds_is_a_usage_error(port: str) -> None:
    code, lines = said_by(begin("threads", "noop_sync", port))
    assert (code, len(lines)) == (2, 1)
    assert "with a port from 0 to 65535" in lines[0]


@pytest.mark.parametrize("name", SERVERS)
def test_a_task_that_is_denied_is_no_matter_of_the_port(name: str, tmp_path: Path) -> None:
    (tmp_path / "denied.py").write_text("raise PermissionError(13, 'denied')\ndef f(): ...\n")
    code, lines = said_by(begin(name, f"{tmp_path}/denied.py:f", "0"))
    assert (code, len(lines)) == (2, 1)
    assert "PermissionError" in lines[0]
    assert "port" not in lines[0].replace("import", "")


@pytest.mark.parametrize("name", SERVERS)
def test_the_facts_recognise_the_process_and_its_interpreter(
    name: str, tmp_path: Path, start: Any
) -> None:
    running = start(name, "noop_sync", path=str(tmp_path))
    stat = Path(f"/proc/{running.process.pid}/stat").read_text()
    told = {key: running.facts[key] for key in ("started", "executable", "path", "gil_enabled")}
    assert told == {
        "started": int(stat.rpartition(")")[2].split()[19]),
        "executable": sys.executable,
        "path": str(tmp_path),
        "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
    }
    server.stop(running)
    assert running.ending["gil_enabled"] == told["gil_enabled"]


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_takes_as_many_files_as_it_may(name: str, tmp_path: Path) -> None:
    file = tmp_path / "8000.json"
    process = begin(name, "noop_sync", "0", limit="--nofile=64:2048", SERVER_FILE=str(file))
    assert wait_until(file.exists, 10)
    limits = psutil.Process(process.pid).rlimit(psutil.RLIMIT_NOFILE)
    process.terminate()
    assert (limits, said_by(process)[0]) == ((2048, 2048), 0)
    assert not file.exists()
