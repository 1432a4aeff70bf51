"""The commands, as a user types them: real fab, real servers, exit codes and single lines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import catalog
from bench import journal
from tests.commands import FAB, fab, free_port, served
from tests.installed import SERVERS
from tests.waiting import wait_until

Alive = Callable[[], list[psutil.Process]]


WRONG = {
    "run_server:9": (2, "no '9' in servers/"),
    "run_server:threds": (2, "did you mean threads?"),
    "run_server:3,network_sink": (2, "did you mean network_sync?"),
    "run_server:3,port=80000": (2, "from 1 to 65535"),
    "run_server:3,workers=nan": (2, "workers='nan' is not a whole number"),
    "run_server:3,workers=0": (2, "workers='0' is not a whole number"),
    "run_server:1,workers=3": (2, "sync takes no workers="),
    "run_server:4,start_method=frk": (2, "did you mean fork?"),
    "run_server:3,python=/no/python": (2, "no Python at '/no/python'"),
    "run_server:3,/no/file.py:f": (2, "no file '/no/file.py'"),
    "run_server:3,path=/no/folder": (2, "no folder '/no/folder' in path="),
    "run_server:3,path=~nosuch/folder": (2, "no folder '~nosuch/folder' in path="),
    f"run_server:3,path={'x' * 300}": (2, "no folder 'xxx"),
    "gil:sha256_sync,path=/no/folder": (2, "no folder '/no/folder' in path="),
    "run_server:3,no.such:f": (2, "no module 'no.such'"),
    "run_server": (2, "which server?"),
    "run_sever:3": (2, "did you mean run_server?"),
    "run_server --bogus=1": (2, "no 'bogus' in what run_server takes"),
    "run_server --server": (2, "error: "),
    "run_load_test:users=0": (2, "users='0'"),
    "run_load_test:time=-1": (2, "time='-1'"),
    "run_load_test:time=nan": (2, "time='nan'"),
    "run_load_test:driver=seige": (2, "did you mean siege?"),
    "run_load_test:url=http://192.0.2.1/,driver=builtin": (2, "not on this machine"),
    "run_load_test:format=yaml": (2, "choose from text, json"),
    "run_load_test": (3, "fab run_server:3"),
    "run_upstream:latency=-1": (2, "latency='-1'"),
    "run_all_load_tests:quick=maybe": (2, "neither yes nor no"),
    "report": (6, "make one by fab quick"),
    "report:nosuch": (6, "no run 'nosuch'"),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_one_line_with_its_exit_code(words: str) -> None:
    code, message = WRONG[words]
    said = fab(*words.split())
    assert (said.returncode, said.stderr.count("\n"), said.stdout) == (code, 1, "")
    assert message in said.stderr


@pytest.mark.parametrize("words", ["measure:3/{},quick=yes", "compare:3/{},4/{}", "gil:{}"])
def test_a_task_that_raises_ends_every_measurement_alike(tmp_path: Path, words: str) -> None:
    (tmp_path / "wrong.py").write_text("def work():\n    raise ValueError('of the task')\n")
    said = fab(words.format(*[f"{tmp_path}/wrong.py:work"] * 2), timeout=120)
    assert said.returncode == 5, said.stderr
    assert "of the task" in said.stdout + said.stderr


def test_a_failed_gil_leaves_no_run_that_would_be_the_newest(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def work():\n    raise ValueError('of the task')\n")
    said = fab(f"gil:{tmp_path}/wrong.py:work")
    assert (said.returncode, "records: " in said.stderr) == (5, False)
    assert [*journal.RESULTS.glob("*-gil*")] == []


def test_a_run_without_a_record_that_can_be_read_has_no_report() -> None:
    (journal.RESULTS / "torn").mkdir()
    (journal.RESULTS / "torn" / journal.FILE).write_text('{"half')
    said = fab("report:torn")
    assert (said.returncode, said.stdout) == (6, "")
    assert said.stderr.splitlines()[-1].endswith(
        "has no record that can be read: name another by report:RUN"
    )


@pytest.mark.skipif(shutil.which("siege") is None, reason="siege is not installed")
def test_too_many_users_for_siege_are_refused() -> None:
    port = free_port()
    with served("run_server:3,noop_sync", "--port", str(port)):
        said = fab(f"run_load_test:users=5000,driver=siege,port={port}")
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "words",
    [
        "run_server:3,noop_sync,{port}",
        "run-server:threads,task=noop_sync,port={port}",
        "run_server --server 3 --task noop_sync --port {port}",
        "run-server --server=threads --task=noop_sync --port={port}",
    ],
)
def test_every_spelling_serves_and_is_found_by_a_load_test(words: str) -> None:
    port = free_port()
    with served(*words.format(port=port).split()):
        said = fab("run_load_test:time=0.5,users=2,driver=builtin,format=json")
    [row] = json.loads(said.stdout)
    assert (said.returncode, row["server"], row["task"]) == (0, "threads", "noop_sync")
    assert row["rate"] > 0
    assert row["memory_pss_mib"] > 5


def test_2_group_is_the_loop_with_a_split_task() -> None:
    port = free_port()
    with served(f"run_server:2_group,port={port}"):
        said = fab("run_load_test:requests=10,users=10,driver=builtin,format=json")
    [row] = json.loads(said.stdout)
    assert (row["server"], row["task"], row["completed"]) == ("loop", "sleep_async_split", 10)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("task", ["noop_sync", "network_https_sync"])
def test_kill_9_of_what_the_user_started_leaves_nothing(
    name: str, task: str, mark: Alive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path))
    port = free_port()
    with served(f"run_server:{name},{task},port={port}") as process:
        assert fab(f"run_load_test:time=0.3,users=4,driver=builtin,port={port}").returncode == 0
        process.kill()
        assert wait_until(lambda: not mark(), 10), mark()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
    assert fab("run_load_test").returncode == 3


def test_several_servers_need_a_port() -> None:
    one, other = free_port(), free_port()
    with (
        served(f"run_server:3,noop_sync,port={one}"),
        served(f"run_server:1,noop_sync,port={other}"),
    ):
        said = fab("run_load_test:time=0.3,driver=builtin")
        assert (said.returncode, said.stderr.count("\n")) == (2, 1)
        assert str(one) in said.stderr
        assert fab(f"run_load_test:time=0.3,driver=builtin,port={other}").returncode == 0


def test_a_busy_port_is_one_line_and_the_next_is_suggested() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        said = fab(f"run_server:3,port={busy.getsockname()[1]}")
    assert (said.returncode, said.stderr.count("\n")) == (3, 1)
    assert f"port={busy_next(said.stderr)}" in said.stderr


def busy_next(line: str) -> int:
    return int(line.split("port ")[1].split(maxsplit=1)[0]) + 1


def test_a_task_that_raises_is_a_row_of_failures_and_exit_code_5(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f():\n    raise ValueError('no')\n")
    port = free_port()
    with served(f"run_server:3,{tmp_path}/bad.py:f,port={port}"):
        said = fab("run_load_test:requests=20,users=2,driver=builtin,format=json")
    [row] = json.loads(said.stdout)
    assert (said.returncode, row["completed"], row["failed"], row["availability"]) == (
        5,
        0,
        20,
        0.0,
    )


def test_load_tests_add_up_to_a_comparison() -> None:
    for server in ("3", "4"):
        port = free_port()
        with served(f"run_server:{server},noop_sync,port={port}"):
            fab("run_load_test:time=0.5,users=2,driver=builtin")
    text = (journal.RESULTS / "results.txt").read_text()
    assert "GIL effects" in text
    assert len(json.loads(fab("report:format=json").stdout)) == 2


def test_results_that_cannot_be_written_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RESULTS", str(tmp_path / "file"))
    said = fab("quick:driver=builtin")
    assert (said.returncode, said.stderr.count("\n")) == (6, 1)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_an_ended_run_keeps_what_was_finished_and_leaves_no_process(
    number: signal.Signals, code: int, mark: Alive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path))
    run = subprocess.Popen(
        [FAB, "quick:driver=builtin"], cwd=catalog.ROOT, stdout=-3, stderr=-1, text=True
    )
    assert wait_until(lambda: [*journal.RESULTS.glob("*-tornado/results.txt")], 40)
    run.send_signal(number)
    _, said = run.communicate(timeout=20)
    assert run.returncode == code
    assert "Traceback" not in said
    assert wait_until(lambda: not mark(), 20), mark()
    assert len(journal.read(journal.newest())) == 1
    assert "fab run_server:1,sleep_sync" in fab("report").stdout


def test_a_name_for_no_python_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONS", "3.99=/nope/python3")
    assert "3.99    missing           PYTHONS   /nope/python3\n" in fab("pythons").stdout
    said = fab("gil:noop_sync,python=3.99")
    expected = "error: no Python at '/nope/python3': mend PYTHONS\n"
    assert (said.returncode, said.stderr) == (2, expected)


def test_list_names_everything_and_bare_fab_every_command() -> None:
    names = [*catalog.servers(), *catalog.tasks(), *catalog.drivers(), *catalog.suites()]
    listed = fab("list").stdout
    assert [name for name in names if f" {name} " not in listed] == []
    assert "run_all_load_tests" in fab().stdout


def test_fab_list_is_quick() -> None:
    began = time.monotonic()
    fab("--list")
    assert time.monotonic() - began < 3 * 0.5


def test_a_file_dropped_into_its_folder_is_listed_run_and_tested(a_copy: Path) -> None:
    (a_copy / "tasks" / "hello.py").write_text(
        'def hello():\n    """Say hello."""\n    return "hi"\n'
    )
    threads = (a_copy / "servers" / "threads.py").read_text()
    (a_copy / "servers" / "copied.py").write_text(threads.replace("NUMBER = 3\n", ""))
    listed = fab("list", cwd=a_copy).stdout
    assert "Say hello." in listed
    assert " copied " in listed
    port = free_port()
    with served(f"run_server:copied,hello,port={port}", cwd=a_copy):
        said = fab("run_load_test:requests=5,users=1,driver=builtin", cwd=a_copy)
    assert said.returncode == 0
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"],
        cwd=a_copy,
        env={key: value for key, value in os.environ.items() if key != "RESULTS"},
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert "test_every_task_answers_the_same_on_every_server[copied]" in collected
    assert "[hello]" in collected
