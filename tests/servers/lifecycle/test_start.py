"""Errors before a server listens: one line, an exit code of its own, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from offload.engine import server
from offload.errors import StartError, UsageError, UserError
from offload.registry import catalog, places
from offload.suites import Case
from tests import ROOT
from tests.commands import python
from tests.http_clients import get
from tests.installed import EVERY, OWN, PLAIN, one_of_each_kind
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server
Alive = Callable[[], list[psutil.Process]]
Start = Callable[..., server.Server]
ONE_STACK = f"--as={1 << 30} --stack={1 << 30}"  # the stack of a thread does not fit, too


def test_a_server_that_listens_without_a_message_is_reported_with_a_fix(
    a_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a_copy / "servers" / "silent.py").write_text(
        "import signal, socket\ndef serve(task: str, port: int) -> None:\n"
        "    with socket.create_server(('127.0.0.1', port)):\n        signal.pause()\n"
    )
    monkeypatch.setattr(catalog, "FOLDER", a_copy / "src" / "offload")
    monkeypatch.setattr(places, "CHECKOUT", a_copy)
    monkeypatch.setattr(server, "READY", 5.0)
    with pytest.raises(StartError, match=r"it listens but .*: call readiness\.announce"):
        server.start(Case("silent", "noop_sync"), {})


def test_a_plain_program_that_does_not_listen_is_one_line(a_copy: Path) -> None:
    (a_copy / "servers" / "silent.py").write_text(
        "import signal\nPLAIN = True\ndef serve(work, port):\n    signal.pause()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "offload.servers", "silent", "noop_sync", "0"],
        env={**os.environ, "SERVER_READY_S": "2"},
        stderr=subprocess.PIPE,
        text=True,
    )
    expected = "error: the program did not listen within 2 s: check what it waits for"
    assert wait_for_end(process) == (4, [expected])


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("name", ["sync", "threads", "prefork"])
def test_a_server_starts_although_the_disk_of_its_log_is_full(name: str, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    with FULL.open("w") as full:
        process = begin(name, "noop_sync", "0", stderr=full, SERVER_FILE=str(facts))
    try:
        assert wait_until(facts.exists)
        assert get(f"http://127.0.0.1:{json.loads(facts.read_bytes())['port']}/") == (200, b"ok")
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
def test_an_error_has_its_exit_code_although_the_disk_of_the_log_is_full() -> None:
    with FULL.open("w") as full:
        assert begin("threads", "no_such_task", "0", stderr=full).wait(20) == 2


CHATTY = 'def work():\n    print("x" * 70_000)\n    return "ok"\n'


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
def test_a_task_that_prints_is_answered_although_the_disk_of_the_output_is_full(
    tmp_path: Path,
) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    facts = tmp_path / "facts.json"
    with FULL.open("w") as full:
        work = f"{tmp_path}/chatty.py:work"
        process = begin("sync", work, "0", stdout=full, stderr=full, SERVER_FILE=str(facts))
    try:
        assert wait_until(facts.exists)
        assert get(f"http://127.0.0.1:{json.loads(facts.read_bytes())['port']}/") == (200, b"ok")
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("name", "settings", "sizes"),
    [
        ("sync", {}, "backlog 5"),
        ("threads", {"SERVER_WORKERS": "1"}, "1 worker, backlog 1024"),
        (
            "threads",
            {"SERVER_WORKERS": "3", "SERVER_PROCESSES": "2"},
            "2 processes, 3 workers in each, backlog 1024",
        ),
    ],
)
def test_a_server_that_starts_shows_its_sizes(
    name: str, settings: dict[str, str], sizes: str
) -> None:
    with begin(name, "noop_sync", "0", **settings) as process:
        try:
            line = read_line(process.stderr)
        finally:
            process.terminate()
    assert re.fullmatch(rf"{name} serves noop_sync at http://\S+/ \({sizes}\)\n", line)


def test_threads_that_cannot_be_started_are_one_line() -> None:
    # Large stacks: without room for one a thread is not created, rather than failing to begin.
    limit = f"--as={4 << 30} --stack={1 << 30}"
    process = begin("threads", "noop_sync", "0", limit=limit, SERVER_WORKERS="200")
    code, lines = wait_for_end(process)
    assert (code, len(lines)) == (3, 1)
    assert "200 workers do not start (can't start new thread)" in lines[0]


@pytest.mark.parametrize("name", ["gunicorn_sync", "plain_loop"])
def test_a_thread_that_cannot_be_started_is_one_line(name: str) -> None:
    process = begin(name, "noop_sync", "0", limit=ONE_STACK)
    code, [line] = wait_for_end(process)
    expected = (
        "error: the server does not start (can't start new thread): raise RLIMIT_AS (1024 MiB"
    )
    assert (code, line[: len(expected)]) == (3, expected)


def test_a_gil_address_that_no_thread_can_verify_is_unknown() -> None:
    code = "from offload.serving.metrics import own_gil; print(own_gil.find_address())"
    done = python(code, "prlimit", *ONE_STACK.split())
    assert done.stdout == (
        "the process cannot read its own memory, or start a thread: can't start new thread\n"
    ), done.stderr


@pytest.mark.usefixtures("own_temporary")  # without a file left it cannot remove its folder
def test_processes_that_cannot_be_started_are_a_start_error(mark: Alive) -> None:
    process = begin("processes", "noop_sync", "0", limit="--nofile=64", SERVER_WORKERS="100")
    code, lines = wait_for_end(process)
    assert code == 3
    words = "100 workers do not start ([Errno 24] Too many open files): raise RLIMIT_NOFILE (64 now"
    assert any(words in line for line in lines)
    assert wait_until(lambda: not mark(), 5)


@pytest.mark.parametrize("name", ["anyio_threads", "starlette_threads"])
def test_a_worker_that_does_not_start_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("raise BaseException('odd')\ndef f(): ...\n")
    code, lines = wait_for_end(begin(name, f"{tmp_path}/odd.py:f", "0", SERVER_WORKERS="1"))
    assert (code, len(lines), "raised BaseException: odd" in lines[0]) == (2, 1, True)


@pytest.mark.parametrize("name", one_of_each_kind([*EVERY, *PLAIN]))
def test_facts_that_cannot_be_written_are_one_line(name: str, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:  # gunicorn leaves files of its dirty workers
        process = begin(
            name, "noop_sync", "0", SERVER_FILE=f"{tmp_path}/no/8000.json", TMPDIR=temporary
        )
        code, lines = wait_for_end(process)
    assert (code, len(lines)) == (6, 1)
    assert "No such file or directory: check permissions and disk space" in lines[0]


@pytest.mark.parametrize("name", ["sync", "processes"])
def test_a_server_takes_as_many_files_as_it_may(name: str, tmp_path: Path) -> None:
    file = tmp_path / "8000.json"
    process = begin(name, "noop_sync", "0", limit="--nofile=64:2048", SERVER_FILE=str(file))
    try:
        assert wait_until(file.exists)
        limits = psutil.Process(process.pid).rlimit(psutil.RLIMIT_NOFILE)
        process.terminate()
    finally:
        code, _ = wait_for_end(process)
    assert (limits, code) == ((2048, 2048), 0)
    assert not file.exists()


@pytest.mark.parametrize("name", one_of_each_kind(EVERY))
def test_too_few_open_files_are_one_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "8000.json"
    process = begin(name, "noop_sync", "0", limit="--nofile=32", SERVER_FILE=str(file))
    code, lines = wait_for_end(process)
    fix = "allow 64 or more with ulimit -n"
    assert lines == [f"error: 32 open files are not enough for a server: {fix}"]
    assert (code, file.exists()) == (3, False)


@pytest.mark.parametrize("name", one_of_each_kind(OWN))
def test_a_module_that_raises_when_imported_is_named_and_is_no_matter_of_the_port(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text("\nraise PermissionError(13, 'denied')\ndef f(): ...\n")
    code, lines = wait_for_end(begin(name, f"{tmp_path}/bad.py:f", "0"))
    assert (code, len(lines)) == (2, 1)
    assert "PermissionError: [Errno 13] denied" in lines[0]
    assert f"{tmp_path}/bad.py:2" in lines[0]
    assert "port" not in lines[0].replace("import", "")


@pytest.mark.parametrize("name", ["sync", "processes", "pipes"])
def test_what_a_module_raises_is_reported_to_the_starter_of_the_server(
    name: str, tmp_path: Path, start: Start
) -> None:
    (tmp_path / "bad.py").write_text("\n1/0\ndef f(): ...\n")
    with pytest.raises(UserError, match=r"ZeroDivisionError.*bad\.py:2"):
        start(name, f"{tmp_path}/bad.py:f")


@pytest.mark.parametrize("name", one_of_each_kind(EVERY))
def test_a_module_that_is_not_there_is_a_usage_error(name: str, start: Start) -> None:
    with pytest.raises(UsageError, match="no_such_module"):
        start(name, "no_such_module:f")


@pytest.mark.parametrize("name", one_of_each_kind(EVERY))
def test_a_busy_port_is_one_line(name: str) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        code, lines = wait_for_end(begin(name, "noop_sync", str(busy.getsockname()[1])))
    assert (code, len(lines)) == (3, 1)
    assert "Address already in use" in lines[0]


@pytest.mark.parametrize("name", ["processes", "pipes"])
def test_a_busy_port_starts_no_worker(name: str, tmp_path: Path) -> None:
    """The module of the task writes a file where it is imported: in workers."""
    (tmp_path / "marks.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\ndef f(): ...\n")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        code, _ = wait_for_end(begin(name, f"{tmp_path}/marks.py:f", port))
    assert (code, (tmp_path / "mark").exists()) == (3, False)


def test_a_setting_it_does_not_take_is_refused(start: Start) -> None:
    with pytest.raises(UsageError, match="sync has no setting workers=: it has backlog="):
        start("sync", "noop_sync", workers=3)


def test_a_server_that_dies_while_starting_is_a_start_error(tmp_path: Path, start: Start) -> None:
    (tmp_path / "dies.py").write_text("import os\nos.kill(os.getpid(), 9)\ndef f(): ...\n")
    with pytest.raises(StartError):
        start("threads", f"{tmp_path}/dies.py:f")


def test_without_a_task_the_usage_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "offload.servers", "threads"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
