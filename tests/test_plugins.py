"""A run of the tests fails for what it leaves behind, for too many skips, and says why."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import catalog

pytestmark = pytest.mark.server


def run(folder: Path, code: str, *words: str) -> tuple[int, str]:
    """Run a test file of one's own with the plugins: its exit code, and what it prints."""
    (folder / "test_own.py").write_text(code)
    plugins = ["-p", "tests.plugins.lanes", "-p", "tests.plugins.leftovers"]
    command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", folder, *words, folder / "test_own.py"],
        cwd=catalog.ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=40,
    )
    return done.returncode, done.stdout + done.stderr


def test_what_a_run_leaves_behind_fails_it_and_is_named(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, tempfile\n"
        "def test():\n"
        "    tempfile.mkdtemp(prefix='mine-')\n"
        "    own = {'start_new_session': True, 'stdout': -3, 'stderr': -3}\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)'], **own)\n"
    )
    done, said = run(tmp_path, code)
    pids = re.findall(r"left behind: process (\d+): .*time\.sleep\(50\)", said)
    assert len(pids) == 1, said
    os.kill(int(pids[0]), signal.SIGKILL)
    [path] = re.findall(r"left behind: temporary file: (\S+mine-\S+)", said)
    assert (done, "1 passed" in said, Path(path).exists()) == (1, True, False)


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
        (["--most-skips=3"], 0, "   1 skipped: slow: make test-all"),
        (["--most-skips=2"], 1, "3 tests were skipped, 2 may be"),
        (["--all", "--most-skips=3"], 1, "1 failed, 2 passed, 2 skipped"),
        (["-m", "unit and not slow"], 0, "1 passed, 2 skipped, 2 deselected"),
    ],
)
def test_lanes_and_skips(words: list[str], code: int, line: str, tmp_path: Path) -> None:
    done, said = run(tmp_path, SKIPPING, *words)
    assert (done, line in said, "no cat" in said) == (code, True, True), said
    assert "left behind" not in said
