"""Every spelling of a command line means the same."""

from __future__ import annotations

import subprocess

import pytest

from offload.cli.syntax import rewrite
from offload.errors import UsageError
from tests import ROOT
from tests.commands import FAB, fab_here

COMMANDS = {
    "run_server": {"server": "", "task": "", "port": "8000"},
    "run_all_load_tests": {"quick": False, "driver": ""},
    "many": {f"option_{number}": "" for number in range(20)},
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
        (["run_server:3,network_sync,9000"], [*OPTIONS, "--port=9000"]),
        (["run-server", "--server=3", "--task=network_sync"], OPTIONS),
        (["run_server", "3", "network_sync"], OPTIONS),
        (["run_server", "3", "task=network_sync"], OPTIONS),
        (["run_server:3", "network_sync"], OPTIONS),
        (["run_server", "3,network_sync"], OPTIONS),
        (["run_server", "--port=9000", "3"], ["run_server", "--port=9000", "--server=3"]),
        (["run_server", "--port", "9000", "3"], ["run_server", "--port", "9000", "--server=3"]),
        (
            ["run_server", "3", "shop.pricing:quote", "run_all_load_tests"],
            ["run_server", "--server=3", "--task=shop.pricing:quote", "run_all_load_tests"],
        ),
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
        (["run_server:3,a,1,2"], "no parameter for '2'"),
        (["run_server:3,prt=1"], "did you mean port"),
        (["run_server:3,server=4"], "server twice"),
        (["run_server:server=3,4"], r"'4' after server= has no name: join .* server=3\+4, or"),
        (["run_server", "--prt", "1"], "did you mean port"),
        (["run_all_load_tests:quick=maybe"], "must be yes or no"),
        (["x\ny"], r"no 'x\\ny' in the commands"),
        (["xyz", "run_server"], "in the commands: choose from run_server, "),
        (["run_server", "run_sever"], "did you mean run_server"),
        (["run_server", "3", "a", "1", "2"], "no parameter for '2'"),
        (["run_server", "server=3", "4"], "'4' after server= has no name"),
        (
            ["many:colour=red"],
            "'colour' in the parameters of many: offload --help many lists them all$",
        ),
    ],
)
def test_a_wrong_word_is_named_with_what_to_do(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rewrite(words, COMMANDS)


def run_command(*words: str) -> tuple[int, str, str]:
    done = fab_here(*words)
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
    code, help_, errors = run_command("--help", "run_server")
    assert (code, "Serve a task with a server until Ctrl-C" in help_, errors) == (0, True, "")
    assert run_command(*words) == (code, help_, errors)


def test_help_of_an_unknown_command_is_one_line_with_a_suggestion() -> None:
    line = "error: no 'run-sever' in the commands: did you mean run_server?\n"
    assert run_command("--help", "run-sever") == (2, "", line)
    line = "error: no 'xyz' in the commands: offload --list lists them all\n"
    assert run_command("--help", "xyz") == run_command("xyz") == (2, "", line)


@pytest.mark.server
@pytest.mark.parametrize("words", [["--list"], ["--help", "run_server"], []])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_traceback(
    words: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    pipe = subprocess.PIPE
    with subprocess.Popen([FAB, *words], cwd=ROOT, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate(timeout=30)
        assert (errors, process.returncode) == (b"", 0)
