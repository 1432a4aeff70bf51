"""Commands in unusual environments: closed streams, a full disk, no folder, other encodings."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offload.cli import completion
from offload.engine.server import find_interpreter
from offload.errors import MachineError, UsageError
from offload.registry import places
from tests import ROOT
from tests.commands import FAB, CompletedCommand, free_port
from tests.http_clients import get
from tests.waiting import read_line

OFFLOAD = "import sys; from offload.cli import main; sys.argv[0] = 'offload'; main()"


def shell(command: str, folder: Path, **variables: str) -> CompletedCommand:
    """Run a command of bash in a folder; OFFLOAD in it is the command `offload`."""
    words = f'"{sys.executable}" -P -c "{OFFLOAD}"'
    environment = {**os.environ, **places.import_path(), "RESULTS": str(folder / "r"), **variables}
    return subprocess.run(
        ["bash", "-c", command.replace("OFFLOAD", words)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
    )


@pytest.mark.slow
@pytest.mark.server
def test_servers_start_without_standard_streams(tmp_path: Path) -> None:
    """The task raises, so that the measurement ends with the first answer of its server."""
    (tmp_path / "bad.py").write_text("def work():\n    raise ValueError('of the task')\n")
    found = shell("OFFLOAD measure:3/bad.py:work,users=2,quick=yes <&- >&-", tmp_path)
    assert found.returncode == 5, found.stderr
    assert "of the task" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.server
@pytest.mark.parametrize("words", ["", "--list", "--help baseline"])
def test_offload_lists_its_commands_by_its_own_name(words: str, tmp_path: Path) -> None:
    found = shell(f"OFFLOAD {words}", tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "offload" in found.stdout
    assert not re.findall(r"\bfab [a-z]+", found.stdout)


@pytest.mark.server
@pytest.mark.parametrize(
    ("words", "advised"),
    [
        ("mesure", "did you mean measure?"),
        ("xyz", "offload --list lists them all"),
        ("advise", "use offload advise package.module:function, a task from offload list, or for"),
        ("measure:3/sleep_sinc", "did you mean sleep_sync?"),
    ],
)
def test_offload_recommends_its_own_commands(words: str, advised: str, tmp_path: Path) -> None:
    found = shell(f"OFFLOAD {words}", tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert advised in found.stderr
    assert not re.findall(r"\bfab [a-z-]+", found.stderr)


@pytest.mark.server
@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_the_completion_of_offload_is_also_that_of_fab(kind: str, tmp_path: Path) -> None:
    found = shell(f"OFFLOAD completion:{kind}", tmp_path)
    assert found.stdout.rstrip() == completion.SCRIPTS[kind].rstrip()


@pytest.mark.server
def test_values_may_follow_a_command_after_spaces(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def quote():\n    raise ValueError(7)\n")
    found = shell("OFFLOAD advise shop.py:quote users=2", tmp_path)
    assert found.returncode == 5, found.stderr
    assert "shop.py:quote raised ValueError: 7" in found.stderr


@pytest.mark.server
def test_a_full_disk_below_the_output_is_one_line(tmp_path: Path) -> None:
    for words in ("list", "--help list", "--version", ""):
        found = shell(f"OFFLOAD {words} > /dev/full", tmp_path)
        assert found.stderr == "error: the output: No space left on device: write it elsewhere\n"
        assert found.returncode == 6


@pytest.mark.server
@pytest.mark.parametrize("streams", ["2> /dev/full", "> /dev/full 2>&1", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize(("words", "code"), [("explain:no_such_run", 2), ("no_such_command", 2)])
def test_an_error_has_its_exit_code_although_it_cannot_be_printed(
    words: str, code: int, streams: str, tmp_path: Path
) -> None:
    found = shell(f"OFFLOAD {words} {streams}", tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (code, "", "")


@pytest.mark.server
@pytest.mark.parametrize(("words", "code"), [("--help list", 6), ("--version", 6), ("", 6)])
def test_no_output_at_all_has_its_exit_code(words: str, code: int, tmp_path: Path) -> None:
    assert shell(f"OFFLOAD {words} > /dev/full 2>&1", tmp_path).returncode == code


@pytest.mark.parametrize("words", ["list", "--list", "", "--version", "completion:bash"])
def test_an_output_that_is_closed_or_not_read_is_no_error(words: str, tmp_path: Path) -> None:
    for ending in (">&-", "| true; exit ${PIPESTATUS[0]}"):
        found = shell(f"OFFLOAD {words} {ending}", tmp_path)
        assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.server
def test_a_folder_that_was_removed_is_one_line(tmp_path: Path) -> None:
    found = shell("mkdir gone; cd gone; rmdir ../gone; unset RESULTS; OFFLOAD report", tmp_path)
    assert found.returncode == 3
    assert found.stderr == "error: the current folder was removed: change to another one\n"


@pytest.mark.server
def test_a_locale_without_the_letters_of_a_folder_shows_them_escaped(tmp_path: Path) -> None:
    results = str(tmp_path / "r\u00e9sults")
    found = shell("OFFLOAD doctor", tmp_path, RESULTS=results, PYTHONIOENCODING="ascii")
    assert "Traceback" not in found.stderr
    assert "r\\xe9sults" in found.stdout


@pytest.mark.server
def test_a_server_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    port = free_port()
    process = subprocess.Popen(
        ["nohup", FAB, f"run_server:sync,noop_sync,port={port}"],
        cwd=ROOT,
        env={**os.environ, "RESULTS": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert "serves" in read_line(process.stderr)
        process.send_signal(signal.SIGHUP)
        assert get(f"http://127.0.0.1:{port}/")[0] == 200
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate(timeout=20)


@pytest.mark.server
def test_advice_that_is_interrupted_before_its_first_round_leaves_no_run(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [FAB, "advise:sleep_short_sync"],
        cwd=ROOT,
        env={**os.environ, "RESULTS": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        read_line(process.stderr)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert not [*tmp_path.iterdir()]


def test_a_user_without_a_home_is_shown_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(places, "CHECKOUT", None)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MachineError, match="set HOME or XDG_CACHE_HOME"):
        places.cache()


def test_a_python_of_a_missing_user_is_missing() -> None:
    with pytest.raises(UsageError, match="no Python at '~no-such-user/python'"):
        find_interpreter("~no-such-user/python")


@pytest.mark.server
def test_commands_are_listed_without_docstrings(tmp_path: Path) -> None:
    """PYTHONOPTIMIZE=2 removes docstrings."""
    found = shell("OFFLOAD", tmp_path, PYTHONOPTIMIZE="2")
    assert (found.returncode, found.stderr) == (0, "")
    assert "  measure" in found.stdout


@pytest.mark.server
def test_what_a_sitecustomize_prints_is_no_result(tmp_path: Path) -> None:
    """Commands read results from the output of their own processes, which runs it, too."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(
        "import atexit\nprint('{hello}', end='', flush=True)\natexit.register(print, 'bye')\n"
    )
    (tmp_path / "shop.py").write_text(
        "async def app(scope, receive, send): ...\ndef quote(): ...\n"
    )
    code = f"""
import json
from offload.engine import calling_process
from offload.loads import Load, builtin
from offload.loads._run import run
found = calling_process.find_application("app=shop:app", path={str(tmp_path)!r})
assert found.kinds == ("asgi",)
with calling_process.start("offload.serving.task_probe", "shop:quote", python=None,
                           path={str(tmp_path)!r}, environment={{}}, ready_s=20.0) as running:
    words = json.dumps({{"kind": "first", "count": 1, "seconds": 0.0}})
    assert running.request(words, 20.0)["failed"] == 0
result = run(Load("http://127.0.0.1:9/", users=1, seconds=0.2), "builtin").result
assert result.problem is None, result.problem
"""
    (tmp_path / "check.py").write_text(code)
    found = subprocess.run(
        [sys.executable, "-P", str(tmp_path / "check.py")],
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}/pipepool/src:{tmp_path}/site"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert found.returncode == 0, found.stderr
