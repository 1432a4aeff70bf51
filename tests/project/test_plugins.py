"""A test run fails and reports why if it leaves something behind or skips too many tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.server


def run(folder: Path, code: str, *words: str) -> tuple[int, str]:
    """Run a test file with the plugins; return the exit code and the output."""
    (folder / "test_own.py").write_text(code)
    plugins = ["-p", "tests.plugins.lanes", "-p", "tests.plugins.leftovers"]
    command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", folder, *words, folder / "test_own.py"],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=40,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_run_that_leaves_something_behind_fails_and_lists_it(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, tempfile\n"
        "def test():\n"
        "    tempfile.mkdtemp(prefix='mine-')\n"
        "    own = {'start_new_session': True, 'stdout': -3, 'stderr': -3}\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)'], **own)\n"
    )
    done, output = run(tmp_path, code)
    pids = re.findall(r"left behind: process (\d+): .*time\.sleep\(50\)", output)
    assert len(pids) == 1, output
    os.kill(int(pids[0]), signal.SIGKILL)
    [path] = re.findall(r"left behind: temporary file: (\S+mine-\S+)", output)
    assert (done, "1 passed" in output, Path(path).exists()) == (1, True, False)


SKIPPING = """
import pytest, tempfile
@pytest.mark.parametrize("n", range(2))
def test_skipped(n): pytest.skip("no cat")
@pytest.mark.slow
def test_slow(): assert False
@pytest.mark.server
def test_server(): tempfile.TemporaryFile().close()
def test_unit(): pass
"""


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["--most-skips=2"], 0, "2 passed, 2 skipped, 1 deselected"),
        (["--most-skips=1"], 1, "2 tests were skipped, 1 may be"),
        (["--all", "--most-skips=3"], 1, "1 failed, 2 passed, 2 skipped"),
        (["-m", "unit and not slow"], 0, "1 passed, 2 skipped, 2 deselected"),
    ],
)
def test_a_run_with_too_many_skips_fails_and_reasons_are_printed(
    words: list[str], code: int, line: str, tmp_path: Path
) -> None:
    done, output = run(tmp_path, SKIPPING, *words)
    assert (done, line in output, "no cat" in output) == (code, True, True), output
    assert "left behind" not in output


def test_a_test_that_is_run_again_is_reported_with_its_failure(tmp_path: Path) -> None:
    code = (
        "runs = []\ndef test():\n    runs.append(1)\n    assert len(runs) == 2, 'the first run'\n"
    )
    done, output = run(tmp_path, code, "-p", "pytest_rerunfailures", "--reruns=1")
    assert done == 0, output
    assert "1 rerun" in output
    assert "retried: test_own.py::test; its first run failed:" in output
    assert "the first run" in output
