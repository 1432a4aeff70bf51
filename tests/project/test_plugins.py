"""A test run fails if it leaves something behind, and prints its skips, retries and order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from itertools import chain
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
        ([], 0, "2 passed, 1 skipped, 1 deselected"),
        (["-n", "2", "-p", "xdist"], 0, "2 passed, 1 skipped"),
        (["--all"], 1, "1 failed, 2 passed, 1 skipped"),
        (["-m", "unit and not slow"], 0, "1 passed, 1 skipped, 2 deselected"),
    ],
)
def test_tests_that_lack_the_same_are_one_skip_with_their_number(
    words: list[str], code: int, line: str, tmp_path: Path
) -> None:
    done, output = run(tmp_path, SKIPPING, *words)
    assert (done, line in output) == (code, True), output
    assert output.count("skipped: no cat: 2 tests\n") == 1
    assert "left behind" not in output


ORDERED = """
import pytest
@pytest.mark.parametrize("n", range(30))
def test(n): assert n != 7
"""


def order_of(folder: Path, *words: str) -> tuple[list[str], str]:
    """Run the tests of ORDERED; return their order and the output."""
    _, output = run(folder, ORDERED, "-p", "tests.plugins.order", *words)
    return (folder / ".data" / "order" / "main.txt").read_text().split(), output


def test_the_order_is_that_of_a_printed_seed_and_a_failure_shows_the_tests_before(
    tmp_path: Path,
) -> None:
    drawn, output = order_of(tmp_path, "--order-seed=random")
    [seed, again] = re.findall(r"^order of the tests: SEED=(\d+)$", output, re.MULTILINE)
    assert (seed, sorted(drawn)) == (again, sorted(order_of(tmp_path)[0]))
    assert (drawn, order_of(tmp_path, f"--order-seed={seed}")[0]) == (drawn, drawn)
    assert drawn != order_of(tmp_path)[0]
    number = drawn.index("test_own.py::test[7]") + 1
    shown = "\n".join(drawn[:number][-21:-1])
    assert f"test {number} of its process; the last ones before it:\n{shown}" in output


def test_processes_that_run_tests_have_one_order(tmp_path: Path) -> None:
    words = ["-p", "tests.plugins.order", "-p", "xdist", "-n", "2", "--order-seed=random"]
    _, output = run(tmp_path, ORDERED, *words)
    assert "1 failed, 29 passed" in output
    done = [path.read_text().split() for path in tmp_path.glob(".data/order/gw?.txt")]
    assert sorted(chain(*done)) == sorted(f"test_own.py::test[{n}]" for n in range(30))
    assert "repeat: head -n " in output


def test_the_tests_before_a_failure_can_be_run_again_in_their_order(tmp_path: Path) -> None:
    drawn, output = order_of(tmp_path, "--order-seed=5")
    [number] = re.findall(r"repeat: head -n (\d+) \S*main.txt > again.txt; ", output)
    (tmp_path / "again.txt").write_text("\n".join(drawn[: int(number)]) + "\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.plugins.order",
    ]
    done = subprocess.run(
        [*command, "-v", "-c", os.devnull, "--rootdir", tmp_path, f"@{tmp_path}/again.txt"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert (
        re.findall(r"^(\S+) (?:PASSED|FAILED)", done.stdout, re.MULTILINE) == drawn[: int(number)]
    )


def test_a_test_that_is_run_again_is_reported_with_its_failure(tmp_path: Path) -> None:
    code = (
        "runs = []\ndef test():\n    runs.append(1)\n    assert len(runs) == 2, 'the first run'\n"
    )
    done, output = run(tmp_path, code, "-p", "pytest_rerunfailures", "--reruns=1")
    assert done == 0, output
    assert "1 rerun" in output
    assert "retried: test_own.py::test; its first run failed:" in output
    assert "the first run" in output
