"""`offload gil` end to end: a sleeping task loses nothing to the GIL, a computing task does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from offload.engine import journal
from tests.commands import CompletedCommand, fab

# In the lane of timing, for what it measures is this machine.
pytestmark = [pytest.mark.timing, pytest.mark.slow, pytest.mark.timeout(600)]
COMPUTES = """
def compute():
    total = 0
    for number in range(200_000):
        total += number
"""
LINE = re.compile(r"(h|rho|hold|gamma|kappa|S threads|S processes|switches|loop lag|C|C direct)  +")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


def run(words: str, results: Path) -> CompletedCommand:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESULTS", str(results))
        return fab(words, timeout=580)


@pytest.fixture(scope="module")
def sleeping(results: Path) -> CompletedCommand:
    return run("gil:sleep_short_sync,workers=2", results)


@pytest.fixture(scope="module")
def computing(results: Path) -> dict[str, Any]:
    (results / "own.py").write_text(COMPUTES)
    said = run(f"gil:{results}/own.py:compute,workers=2,format=json", results)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def figures(said: CompletedCommand) -> dict[str, float | None]:
    """Return the first number of each line of the table."""
    found = {}
    for line in said.stdout.splitlines():
        if match := LINE.match(line):
            value = line[match.end() :].split()[0]
            found[match[1]] = None if value == "-" else float(value.rstrip("x"))
    return found


def test_every_figure_has_its_line_and_the_rest_is_worded(
    sleeping: CompletedCommand, results: Path
) -> None:
    assert sleeping.returncode == 0, sleeping.stderr
    assert sleeping.stdout.startswith("sleep_short_sync, 2 workers, Python 3.")
    assert len(figures(sleeping)) == 11
    [folder] = re.findall(r"^records: (.+)$", sleeping.stdout, re.MULTILINE)
    assert Path(folder).parent == results
    records = journal.read(Path(folder))
    assert {record.case.server for record in records} == {"threads", "processes"}
    assert [record.trial.suite for record in records].count("gil") >= 1


def test_sleeping_threads_do_as_much_as_they_are(sleeping: CompletedCommand) -> None:
    found = figures(sleeping)
    assert found["S threads"] == pytest.approx(2, abs=0.5)
    assert found["S processes"] == pytest.approx(2, abs=0.5)
    assert abs(found["C"] or 0) < 0.3
    assert abs(found["C direct"] or 0) < 0.3
    assert (found["gamma"] or 0) < 0.3


def test_computing_threads_do_no_more_than_one(computing: dict[str, Any]) -> None:
    assert computing["workers"] == 2
    assert computing["s_threads"] < 1.4
    assert 0 <= computing["gamma"] <= 1
    assert 0.5 < computing["kappa"] < 2
    assert computing["s_processes"] > 0.5
    assert computing["cost_low"] <= computing["cost"] <= computing["cost_high"] < 1
    assert computing["follows"]


def test_computing_threads_wait_for_each_other(computing: dict[str, Any]) -> None:
    """Unless other processes keep them off the CPU, which is not the GIL's doing."""
    if others := [flag for flag in computing["flags"] if flag.startswith("others: ")]:
        pytest.skip(f"the machine is not quiet: {others[0]}")
    assert computing["gamma"] > 0.2


def test_the_sampler_distinguishes_tasks_that_sleep_and_tasks_that_compute(
    sleeping: CompletedCommand, computing: dict[str, Any]
) -> None:
    if computing["h"] is None:
        pytest.skip(f"the GIL sampler is not available now: {computing['unavailable']}")
    assert computing["h"] > 0.8
    if why := re.search(r"^not known: .*h.*: (.+)$", sleeping.stdout, re.MULTILINE):
        pytest.skip(f"the GIL sampler is not available now: {why[1]}")
    assert (figures(sleeping)["h"] or 0) < 0.2
