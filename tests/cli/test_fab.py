"""The commands as a user types them: real fab, real servers, exit codes, one-line errors."""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from offload.engine import journal, running_servers
from offload.errors import MachineError
from offload.registry import catalog
from tests import ROOT
from tests.commands import FAB, can_listen, fab, fab_here, free_port, served
from tests.http_clients import get, in_threads
from tests.installed import KINDS, OWN, require
from tests.waiting import wait_until

Alive = Callable[[], list[psutil.Process]]
pytestmark = pytest.mark.server


slow = functools.partial(pytest.param, marks=pytest.mark.slow)


@pytest.fixture(autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have temporary files where pytest removes them: who is killed by 9 leaves its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))


@pytest.fixture
def bad(tmp_path: Path) -> str:
    """Name a task of the test's own that raises."""
    (tmp_path / "bad.py").write_text("def work():\n    raise ValueError('of the task')\n")
    return f"{tmp_path}/bad.py:work"


@pytest.mark.parametrize(
    "words",
    ["measure:3/{},quick=yes", slow("compare:3/{},4/{}"), slow("gil:{}")],
)
def test_a_task_that_raises_ends_every_measurement_alike(bad: str, words: str) -> None:
    said = fab(words.format(bad, bad))
    assert said.returncode == 5, said.stderr
    assert "of the task" in said.stdout + said.stderr
    if "measure" not in words:  # which prints its table, too
        assert said.stderr.rstrip().endswith(f"records: {journal.newest()}")


def test_a_run_without_a_record_that_can_be_read_has_no_report() -> None:
    (journal.RESULTS / "torn").mkdir()
    (journal.RESULTS / "torn" / journal.FILE).write_text('{"half')
    said = fab_here("report:torn")
    assert (said.returncode, said.stdout) == (6, "")
    assert said.stderr.splitlines()[-1].endswith(
        "has no readable record: choose another run by offload report RUN"
    )


@pytest.mark.skipif(shutil.which("siege") is None, reason="siege is not installed: make test-all")
def test_too_many_users_for_siege_are_refused() -> None:
    port = free_port()
    with served("run_server:3,noop_sync", "--port", str(port)):
        said = fab_here(f"run_load_test:users=5000,driver=siege,port={port}")
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "words",
    [
        "run-server:threads,task=sleep_short_sync,port={port}",
        slow("run_server --server 3 --task sleep_short_sync --port {port}"),
    ],
)
def test_words_and_options_both_serve_and_each_is_found_by_a_load_test(words: str) -> None:
    port = free_port()
    with served(*words.format(port=port).split()):
        said = fab("run_load_test:time=0.5,users=2,driver=builtin,format=json")
    [row] = json.loads(said.stdout)
    assert (said.returncode, row["server"], row["task"]) == (0, "threads", "sleep_short_sync")
    assert row["rate"] > 0
    assert row["memory_pss_mib"] > 5


def test_2_group_is_the_loop_with_a_split_task() -> None:
    port = free_port()
    with served(f"run_server:2_group,port={port}"):
        said = fab("run_load_test:requests=10,users=10,driver=builtin,format=json")
    [row] = json.loads(said.stdout)
    assert (row["server"], row["task"], row["completed"]) == ("loop", "sleep_async_split", 10)


KILLED = [  # with what a network task fetches from; and without, of each kind of pool
    *((name, "network_https_sync") for name in OWN if name in KINDS),
    *(slow(name, "network_https_sync") for name in OWN if name not in KINDS),
    *[(name, "noop_sync") for name in ("threads", "processes")],
]


@pytest.mark.parametrize(("name", "task"), KILLED)
def test_kill_9_of_what_the_user_started_leaves_nothing(
    name: str, task: str, mark: Alive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(name)
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path))
    port = free_port()
    with served(f"run_server:{name},{task},port={port}") as process:
        answers = in_threads(4, lambda: get(f"http://127.0.0.1:{port}/"))
        assert [status for status, _ in answers] == [200] * 4
        assert running_servers.find_server()["port"] == port
        process.kill()
        assert wait_until(lambda: not mark()), mark()
    assert can_listen(port)
    with pytest.raises(MachineError, match="no server is running"):
        running_servers.find_server()


@pytest.mark.slow
def test_several_servers_need_a_port() -> None:
    one, other = free_port(), free_port()
    with (
        served(f"run_server:3,sleep_short_sync,port={one}"),
        served(f"run_server:1,sleep_short_sync,port={other}"),
    ):
        said = fab_here("run_load_test:time=0.3,driver=builtin")
        assert (said.returncode, said.stderr.count("\n")) == (2, 1)
        assert str(one) in said.stderr
        assert fab(f"run_load_test:time=0.3,driver=builtin,port={other}").returncode == 0


def test_a_busy_port_is_one_line_and_the_next_is_suggested() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        said = fab_here(f"run_server:3,port={port}")
    assert (said.returncode, said.stderr.count("\n")) == (3, 1)
    assert f"port={port + 1}" in said.stderr


def test_a_task_that_raises_is_a_row_of_failures_and_exit_code_5(bad: str) -> None:
    port = free_port()
    with served(f"run_server:3,{bad},port={port}"):
        said = fab("run_load_test:requests=20,users=2,driver=builtin,format=json")
    [row] = json.loads(said.stdout)
    assert said.returncode == 5
    assert (row["completed"], row["failed"], row["availability"]) == (0, 20, 0.0)


def test_load_tests_add_up_to_a_comparison() -> None:
    for server in ("3", "4"):
        port = free_port()
        with served(f"run_server:{server},sleep_short_sync,port={port}"):
            fab("run_load_test:time=0.5,users=2,driver=builtin")
    text = (journal.RESULTS / "results.txt").read_text()
    assert "GIL effects" in text
    assert len(json.loads(fab_here("report:format=json").stdout)["rows"]) == 2


def test_results_that_cannot_be_written_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RESULTS", str(tmp_path / "file"))
    said = fab("quick:driver=builtin")
    assert (said.returncode, said.stderr.count("\n")) == (6, 1)


QUICK = "quick:driver=builtin"
NETWORK = "measure:3/network_sync,users=2"  # which needs what the task fetches from


@pytest.mark.parametrize(
    ("words", "number", "code", "row"),
    [
        slow(QUICK, signal.SIGINT, 130, "Server/task"),  # in make test: test_measuring, Ctrl-C
        slow(NETWORK, signal.SIGTERM, 130, "threads/network_sync"),
        slow(NETWORK, signal.SIGKILL, -9, "threads/network_sync"),
    ],
)
def test_an_ended_run_keeps_what_was_finished_and_leaves_no_process(
    words: str,
    number: signal.Signals,
    code: int,
    row: str,
    mark: Alive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path))
    run = subprocess.Popen([FAB, words], cwd=ROOT, stdout=-3, stderr=-1, text=True)
    try:
        assert wait_until(lambda: [*journal.RESULTS.glob("*/results.txt")], 40)
        finished = journal.read(journal.newest())
        run.send_signal(number)
        _, said = run.communicate(timeout=20)
    finally:
        run.kill()
    assert run.returncode == code
    assert "Traceback" not in said
    assert wait_until(lambda: not mark()), mark()
    assert finished
    assert journal.read(journal.newest())[: len(finished)] == finished
    assert row in fab_here("report").stdout


def test_a_name_for_no_python_is_reported_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # each Python there would be asked for its version
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONS", "3.99=/nope/python3")
    assert "3.99    missing           PYTHONS   /nope/python3\n" in fab_here("pythons").stdout
    said = fab_here("gil:noop_sync,python=3.99")
    expected = "error: no Python at '/nope/python3': fix PYTHONS\n"
    assert (said.returncode, said.stderr) == (2, expected)


def test_list_names_everything_and_bare_fab_every_command() -> None:
    names = [*catalog.servers(), *catalog.tasks(), *catalog.drivers(), *catalog.suites()]
    listed = fab_here("list").stdout
    assert max(map(len, listed.splitlines())) <= 100
    assert [name for name in names if f" {name} " not in listed] == []
    assert "run_all_load_tests" in fab_here().stdout
    bare = fab().stdout.splitlines()
    first = [line.split()[1].partition(":")[0] for line in bare[1:4]]
    assert first == ["doctor", "advise", "quick"]
    here = fab_here().stdout.splitlines()  # in the order in which tests imported the commands
    assert sorted(bare) == sorted(here)


def test_fab_list_is_quick() -> None:  # by its CPU time, which others change little
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    fab("--list")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3 * 0.5  # of CPU


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
        assert get(f"http://127.0.0.1:{port}/") == (200, b"hi")
    tests = ["tests/servers/test_contract.py", "tests/tasks"]
    collected = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--all",
            "--collect-only",
            "-p",
            "no:cacheprovider",
            *tests,
        ],
        cwd=a_copy,
        env={key: value for key, value in os.environ.items() if key != "RESULTS"},
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert re.search(r"test_contract\.py::\w+\[.*\bcopied\b", collected)
    assert re.search(r"tests/tasks/\S+::\w+\[.*\bhello\b", collected)
