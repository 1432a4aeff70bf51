"""An invalid command line prints one line, sets the exit code, and creates no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from offload.engine import journal
from offload.errors import UsageError
from tests.commands import fab, fab_here

WRONG = {
    "run_server:9": (2, "no '9' in servers/"),
    "run_server:threds": (2, "did you mean threads?"),
    "run_server:3,network_sink": (2, "did you mean network_sync?"),
    "run_server:3,port=80000": (2, "from 1 to 65535"),
    "run_server:3,workers=nan": (2, "workers='nan' is not a whole number"),
    "run_server:3,workers=0": (2, "workers='0' is not a whole number"),
    "run_server:1,workers=3": (2, "sync has no setting workers="),
    "run_server:4,start_method=frk": (2, "did you mean fork?"),
    "run_server:3,python=/no/python": (2, "no Python at '/no/python'"),
    "run_server:3,/no/file.py:f": (2, "no file '/no/file.py'"),
    "run_server:3,path=/no/folder": (2, "no folder '/no/folder' in path="),
    "run_server:3,path=~nosuch/folder": (2, "no folder '~nosuch/folder' in path="),
    f"run_server:3,path={'x' * 300}": (2, "no folder 'xxx"),
    "gil:sha256_sync,path=/no/folder": (2, "no folder '/no/folder' in path="),
    "run_server": (2, "no server given: use offload run_server"),
    "run_sever:3": (2, "did you mean run_server?"),
    "run_server --bogus=1": (2, "no 'bogus' in the parameters of run_server"),
    "run_server --server": (2, "error: "),
    "run_load_test:users=0": (2, "users='0'"),
    "run_load_test:time=-1": (2, "time='-1'"),
    "run_load_test:time=nan": (2, "time='nan'"),
    "run_load_test:driver=seige": (2, "did you mean siege?"),
    "run_load_test:driver=siege,rate=5,url=http://127.0.0.1:1/": (2, "siege has no open loop"),
    "run_load_test:url=http://192.0.2.1/,driver=builtin": (2, "not on this machine"),
    "run_load_test:url=http://127.0.0.1:1/": (
        5,
        "no connection to 127.0.0.1:1: ",
    ),
    "run_load_test:format=yaml": (2, "choose from text, json"),
    "run_load_test": (3, "offload run_server 3"),
    "run_upstream:latency=-1": (2, "latency='-1'"),
    "run_all_load_tests:quick=maybe": (2, "must be yes or no"),
    "run_all_load_tests:rows=some": (2, "published, latency, later"),
    "run_suite": (2, "no suite given: use offload run_suite NAME"),
    "run_suite:tornad": (2, "did you mean tornado?"),
    "run_suite:all,rows=no": (2, "rows='no'"),
    "measure": (2, "no case given: a case is SERVER/TASK"),
    "measure:3": (2, "is not a case"),
    "measure:docs.shop:quote": (2, "is not a case: write 3/docs.shop:quote for threads"),
    "measure:docs/shop.py:quote": (2, "is not a case: write 3/docs/shop.py:quote for threads"),
    "measure:docs/shap.py:quote": (2, "in servers/"),
    "measure:9/sleep_sync": (2, "in servers/"),
    "measure:3x0/sleep_sync": (2, "workers must be from 1 to 256"),
    "measure:2x4/sleep_sync": (2, "has no workers"),
    "measure:3@9.99/sleep_sync": (2, "PYTHONS=9.99="),
    "measure:3/sleep_sync,target=0": (2, "not a number from 0.1 to 50"),
    "measure:3/threads": (2, "'threads' is a server, but a task is expected"),
    "compare": (2, "no first case given: a case is"),
    "compare:3/sleep_sync": (2, "no second case given: a case is"),
    "scale:3/sleep_sync": (2, "nothing to vary: use workers=1..16"),
    "scale:3/sleep_sync,workers=9..2": (2, "must be ascending"),
    "scale:1/sleep_sync,workers=1..4": (2, "sync has no workers"),
    "gil": (2, "no task given: use offload gil TASK"),
    "gil:noop_sync,python=3.99": (2, "no Python at '3.99'"),
    "gil:uvicorn_h11": (2, "'uvicorn_h11' is a server, but a task is expected"),
    "report": (6, "start one by offload quick"),
    "report:nosuch": (6, "no run 'nosuch'"),
    "run_load_test:url=http://127.0.0.1/,body=@/dev/zero": (2, "body=@/dev/zero has more than"),
}
NEWLINES = {
    "run_server:3,python=no\nsuch": r"install it, or set PYTHONS=no\nsuch=/path/of/python",
    "run_load_test:url=http://127.0.0.1/,body=@no\nsuch": r"body=@no\nsuch: No such file",
    "run_server:3,noop\nsync": "did you mean noop_sync?",
    "measure\nx:3/noop_sync": "did you mean measure?",
}
# Each ends in another place: while words are read, in the command, in a server that was started.
AS_A_USER_TYPES = {
    **{words: WRONG[words] for words in ("run_sever:3", "measure:9/sleep_sync", "report")},
    "run_server:3,no.such:f": (2, "no module 'no.such'"),  # found by the process that would serve
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_one_line_with_its_exit_code_and_leaves_no_run(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "3.99" in words:  # each Python on PATH and in pyenv would be started for its version
        monkeypatch.setenv("PATH", "")
        monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    code, message = WRONG[words]
    said = fab_here(*words.split())
    assert (said.returncode, said.stderr.count("\n"), said.stdout) == (code, 1, "")
    assert message in said.stderr
    assert list(journal.RESULTS.glob("*/*")) == []


@pytest.mark.parametrize("word", NEWLINES)
def test_a_newline_in_a_name_is_escaped(word: str) -> None:
    said = fab_here(word)
    assert (said.returncode, said.stderr.count("\n"), said.stdout) == (2, 1, "")
    assert NEWLINES[word] in said.stderr


@pytest.mark.server
@pytest.mark.parametrize("words", AS_A_USER_TYPES)
def test_it_is_so_where_a_user_types_it(words: str) -> None:
    code, message = AS_A_USER_TYPES[words]
    said = fab(words)
    assert (said.returncode, said.stderr.count("\n"), said.stdout) == (code, 1, "")
    assert message in said.stderr
    assert list(journal.RESULTS.glob("*/*")) == []


def test_idempotent_is_yes_or_no() -> None:
    said = fab_here("run_server:4,noop_sync,idempotent=perhaps")
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "no 'perhaps' in idempotent=: choose from yes, no" in said.stderr


@pytest.mark.parametrize(
    "words",
    [
        *("{}", "--{}", "--help {}", "report:{}", "list:{}", "run_load_test:url=http://{}/"),
        *("run_server:{}", "run_server:3,{}", "run_server:3,{}.py:f", "run_server:3,python={}"),
        *("measure:3/{}", "measure:3/noop_sync,{}=3", "measure:3/noop_sync,users={}"),
    ],
)
def test_a_name_of_100_000_characters_is_shortened(words: str) -> None:
    found = fab_here(*words.format("n" * 100_000).split())
    [line] = found.stderr.splitlines()
    assert found.returncode in (2, 6)
    assert "nnn" in line
    assert len(line) < 1000


def test_both_ends_of_a_long_name_are_kept() -> None:
    error = UsageError(f"no file /begin/{'n' * 100_000}/shop.py: it is missing", "word " * 10_000)
    assert error.what.startswith("no file /begin/nnn")
    assert error.what.endswith("nnn/shop.py: it is missing")
    assert len(str(error)) < 2500
