"""Shells complete commands, their arguments and their options, also after a colon."""

from __future__ import annotations

import functools
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offload.cli import commands, completion
from offload.cli.program import OFFLOAD
from offload.registry import catalog
from tests import ROOT
from tests.commands import fab_here

assert commands  # they have registered themselves
DEADLINE = 30.0  # s until a shell has completed a word


def candidates(line: str) -> list[str]:
    return completion.candidates(line, OFFLOAD.all_parameters())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fab run_s", ["run_server", "run_suite"]),
        ("fab doctor run_l", ["run_load_test"]),
        ("fab run_server:waitr", ["run_server:waitress"]),
        ("fab run_server:proc", ["run_server:processes", "run_server:processes="]),
        ("fab run_server:3,sleep_sy", ["run_server:3,sleep_sync"]),
        ("fab run_server:3,sleep_sync,wo", ["run_server:3,sleep_sync,workers="]),
        ("fab run_server:3,task=sleep_sy", ["run_server:3,task=sleep_sync"]),
        ("fab run_server:port=9000,se", ["run_server:port=9000,server="]),
        ("fab run_server:server=3,sleep_sy", []),
        ("fab run-server:3,sleep_sy", ["run-server:3,sleep_sync"]),
        ("fab run_suite --quick doc", ["doctor"]),
        ("fab compare:3/sleep_sync,4/sleep_sy", ["compare:3/sleep_sync,4/sleep_sync"]),
        ("fab compare:pip", ["compare:pipes/"]),
        ("fab measure:3/x,quick=", ["measure:3/x,quick=yes", "measure:3/x,quick=no"]),
        ("fab run_suite:tor", ["run_suite:tornado"]),
        ("fab advise:noop_sync,code=fl", ["advise:noop_sync,code=flask"]),
        ("fab run_load_test:driver=si", ["run_load_test:driver=siege"]),
        ("fab report:format=ht", ["report:format=html"]),
        ("fab compare-runs:main,format=ju", ["compare-runs:main,format=junit"]),
        ("fab measure --format js", ["json"]),
        ("fab completion:z", ["completion:zsh"]),
        ("fab run_server --wo", ["--workers"]),
        ("fab run_server:3 --ta", ["--task", "--task-timeout"]),
        ("fab run_server --server waitr", ["waitress"]),
        ("fab --li", ["--list"]),
        ("offload run_server 3 sleep_sy", ["sleep_sync"]),
        ("offload run_server 3 task=sleep_sy", ["task=sleep_sync"]),
        ("offload measure 3/sleep_sync quick=", ["quick=yes", "quick=no"]),
        ("offload measure pip", ["pipes/"]),
        ("fab nonsense:thr", []),
        ("fab run_server:3,no_such", []),
    ],
)
def test_the_last_word_of_a_line_is_completed(line: str, expected: list[str]) -> None:
    assert candidates(line) == expected


def test_a_space_begins_a_new_command() -> None:
    assert candidates("fab ") == sorted(OFFLOAD.commands)
    assert {*OFFLOAD.commands} < {*candidates("fab run_server:3 ")}


def test_every_server_is_a_candidate_by_name_and_number() -> None:
    servers = [word.partition(":")[2] for word in candidates("fab run_server:")]
    assert servers[:4] == ["1", "2", "3", "4"]
    assert {*catalog.servers(), "2_group", "workers="} <= {*servers}


def test_runs_are_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offload.engine.journal.RESULTS", ROOT / "results")
    assert candidates("fab report:example-to") == ["report:example-tornado"]


def test_fab_prints_candidates_and_nothing_for_an_unknown_word() -> None:
    said = fab_here("--complete", "--", "fab run_server:3,sleep_sy")
    assert (said.returncode, said.stdout, said.stderr) == (0, "run_server:3,sleep_sync\n", "")
    assert fab_here("--complete", "--", "fab nonsense").stdout == ""


def test_an_unknown_shell_is_one_line() -> None:
    said = fab_here("completion:tcsh")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)


SHELLS = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
    "fish": ["--no-config", "-i"],
}


class Terminal:
    """A shell in a terminal of its own, as a user has it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def wait_for(self, text: str) -> None:
        """Read what the shell shows, until it has shown `text` since the last call."""
        deadline = time.monotonic() + DEADLINE
        while text not in self.shown:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, left))
            assert ready, f"no {text!r} in {self.shown[-500:]!r}"
            try:
                self.shown += os.read(self._descriptor, 65536).decode(errors="replace")
            except OSError:  # the shell has ended
                raise AssertionError(f"no {text!r} in {self.shown[-500:]!r}") from None
        self.shown = self.shown.partition(text)[2]


@contextmanager
def terminal(shell: str, folder: Path) -> Iterator[Terminal]:
    """Start a shell in a folder; its PATH begins with the commands of this Python."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {key: value for key, value in os.environ.items() if key not in ("BASH_ENV", "ENV")}
    own_folder = {"HOME": str(folder), "TMPDIR": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    environment = {**kept, **own_folder, "PATH": path, "TERM": "dumb"}
    own, other = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", shell, *SHELLS[shell]],
        cwd=ROOT,
        env=environment,
        stdin=other,
        stdout=other,
        stderr=other,
    )
    os.close(other)
    try:
        yield Terminal(own)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        os.close(own)


LOAD = {"fish": "{program} completion:fish | source"}


slow = functools.partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.server
@pytest.mark.parametrize("program", ["fab", slow("offload")])
@pytest.mark.parametrize("shell", ["bash", slow("zsh"), slow("fish")])
def test_a_shell_completes_a_task_behind_a_colon(shell: str, program: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: sudo apt install {shell}, then make test-all")
    if shutil.which(program, path=str(Path(sys.executable).parent)) is None:
        pytest.skip(f"{program} is not installed: make setup")
    load = LOAD.get(shell, 'eval "$({program} completion:{shell})"')
    with terminal(shell, tmp_path) as shown:
        shown.type(load.format(program=program, shell=shell) + "; echo load''ed\n")
        shown.wait_for("loaded")
        shown.type(f"{program} run_server:3,sleep_short_\t")
        shown.wait_for("sleep_short_sync")
        shown.type("\x7f,wo\t" if shell == "fish" else ",wo\t")  # fish adds a space
        shown.wait_for("workers=")


def test_the_scripts_are_those_that_the_command_prints() -> None:
    for shell, script in completion.SCRIPTS.items():
        assert fab_here(f"completion:{shell}").stdout == script
