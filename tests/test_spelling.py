"""Every spelling of a command line means the same."""

from __future__ import annotations

import pytest

from errors import UsageError
from spelling import rewrite

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
