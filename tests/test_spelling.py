"""Every spelling of a command line means the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import catalog
from errors import UsageError
from spelling import rewrite

FAB = str(Path(sys.executable).with_name("fab"))
COMMANDS = {
    "run_server": {"server": "", "task": "", "port": "8000"},
    "run_all_load_tests": {"quick": False, "driver": ""},
}
OPTIONS = ["run_server", "--server=3", "--task=network_sync"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run_server:3,network_sync"], OPTIONS),
        (["run-server:3,network_sync"], OPTIONS),
        (["run_server:server=3,task=network_sync"], OPTIONS),
        (["run_server:3,task=network_sync"], OPTIONS),
        (["run_server", "--server", "3"], ["run_server", "--server", "3"]),
        (
            ["run_server:3,shop.pricing:quote"],
            ["run_server", "--server=3", "--task=shop.pricing:quote"],
        ),
        (["run_server:3,/a/b=c.py:f"], ["run_server", "--server=3", "--task=/a/b=c.py:f"]),
        (["run_server:3,,9000"], ["run_server", "--server=3", "--port=9000"]),
        (["run_server:"], ["run_server"]),
        (["run_all_load_tests:quick=yes"], ["run_all_load_tests", "--quick"]),
        (["run_all_load_tests:quick=no"], ["run_all_load_tests"]),
        (["run_all_load_tests:yes"], ["run_all_load_tests", "--quick"]),
        (
            ["run_all_load_tests", "--quick", "run_server"],
            ["run_all_load_tests", "--quick", "run_server"],
        ),
        ([], []),
    ],
)
def test_a_spelling_becomes_options(words: list[str], expected: list[str]) -> None:
    assert rewrite(words, COMMANDS) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run_sever:3"], "did you mean run_server"),
        (["run_server:3,a,1,2"], "no place for '2'"),
        (["run_server:3,prt=1"], "did you mean port"),
        (["run_server:3,server=4"], "server twice"),
        (["run_server", "--prt", "1"], "did you mean port"),
        (["run_all_load_tests:quick=maybe"], "neither yes nor no"),
        (["x\ny"], r"no 'x\\ny' in the commands"),
    ],
)
def test_a_wrong_word_is_named_with_what_to_do(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rewrite(words, COMMANDS)


def fab(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [FAB, *words], cwd=catalog.ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--help", "run-server"],
        ["--help=run-server"],
        ["-h", "run_server:3"],
        ["run-server", "--help"],
        ["run-server:3", "--help"],
    ],
)
def test_help_takes_every_spelling_of_a_command(words: list[str]) -> None:
    assert fab(*words) == fab("--help", "run_server")
    assert fab(*words)[0] == 0


def test_help_of_an_unknown_command_is_one_line_with_a_suggestion() -> None:
    said = "error: no 'run-sever' in the commands: did you mean run_server?\n"
    assert fab("--help", "run-sever") == (2, "", said)
    said = "error: no 'xyz' in the commands: fab --list names them all\n"
    assert fab("--help", "xyz") == fab("xyz") == (2, "", said)


@pytest.mark.parametrize("words", [["--list"], ["--help", "run_server"], []])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_traceback(
    words: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    pipe = subprocess.PIPE
    with subprocess.Popen([FAB, *words], cwd=catalog.ROOT, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
