"""Measuring, comparing and going on with a run, as a user types them; all with real servers."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from offload.bench.records import journal
from tests import ROOT
from tests.commands import FAB, fab
from tests.test_fab import Alive
from tests.waiting import read_line, wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have temporary files where pytest removes them: who is killed by 9 leaves its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))


def test_measure_ends_in_one_row_with_an_interval() -> None:
    said = fab("measure:3/sleep_short_sync,users=4,quick=yes,target=50,format=json")
    [row] = json.loads(said.stdout)
    assert said.returncode == 0
    assert row["rate_low"] < row["rate"] < row["rate_high"]
    assert (row["command"], row["model"]) == ("fab run_server:3,sleep_short_sync", "closed")
    rounds = {number for number, _, _ in visits()}
    assert rounds == {*range(1, len(rounds) + 1)}
    assert 3 <= row["visits"] <= len(rounds) <= 7
    assert row["response_p50_s"] <= row["response_p99_s"]


@pytest.mark.slow
def test_compare_finds_four_workers_faster_than_two() -> None:
    said = fab("compare:3x2/sleep_short_sync,3x4/sleep_short_sync,users=8,quick=yes,format=json")
    found = json.loads(said.stdout)
    assert said.returncode == 0, said.stderr
    assert (found["verdict"], found["pairs"]) == ("faster", 5)
    assert "5 pairs: 3x4/sleep_short_sync is " in said.stderr
    assert " times 3x2/sleep_short_sync: faster" in said.stderr
    assert 1.2 < found["ratio_low"] <= found["ratio"] <= found["ratio_high"] < 3


@pytest.mark.slow
def test_resume_repeats_and_loses_no_finished_visit_after_kill_9(mark: Alive) -> None:
    run = subprocess.Popen(
        [FAB, "measure:3/sleep_short_sync,users=2,quick=yes,target=50"], cwd=ROOT, stderr=-3
    )
    try:
        assert wait_until(lambda: len(visits()) >= 2, 40)
    finally:
        run.kill()
        run.wait(20)
    assert wait_until(lambda: not mark()), mark()
    finished = visits()
    said = fab("resume:format=json", timeout=120)
    assert said.returncode == 0, said.stderr
    assert visits()[: len(finished)] == finished
    assert len({*visits()}) == len(visits()) >= 3


def visits() -> list[tuple[int | None, int, str]]:
    """Give round, attempt and time of what is on disk."""
    runs = [path.parent for path in journal.RESULTS.glob(f"*/{journal.FILE}")]
    return [
        (r.trial.round, r.trial.attempt, r.trial.utc) for run in runs for r in journal.read(run)
    ]


def test_two_processes_never_add_to_one_run() -> None:
    run = subprocess.Popen([FAB, "measure:3/sleep_short_sync,users=2"], cwd=ROOT, stderr=-1)
    try:
        while ": load, " not in read_line(run.stderr):
            pass
        said = fab("resume")
    finally:
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=20)
    assert (said.returncode, "is being measured by another process" in said.stderr) == (5, True)
