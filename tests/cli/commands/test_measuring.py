"""Measuring, comparing and resuming runs as a user does, with real servers."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter

import pytest

from offload.engine import journal
from offload.engine.record import Trial
from tests import ROOT
from tests.cli.test_fab import Alive
from tests.commands import FAB, fab, fab_here
from tests.waiting import read_line, wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have temporary files where pytest removes them: who is killed by 9 leaves its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))


def trials() -> list[Trial]:
    """Return when and why each record on disk was made."""
    runs = [path.parent for path in journal.RESULTS.glob(f"*/{journal.FILE}")]
    return [record.trial for run in runs for record in journal.read(run)]


def windows_by_round() -> dict[tuple[int | None, int], int]:
    return Counter((trial.round, trial.attempt) for trial in trials())


def test_measure_ends_in_one_row_with_an_interval() -> None:
    said = fab("measure:3/sleep_short_sync,users=4,quick=yes,target=50,format=json")
    [row] = json.loads(said.stdout)
    assert said.returncode == 0
    assert row["rate_low"] < row["rate"] < row["rate_high"]
    assert (row["command"], row["model"]) == ("run_server:3,sleep_short_sync", "closed")
    rounds = {trial.round for trial in trials()}
    assert rounds == {*range(1, len(rounds) + 1)}
    assert 3 <= row["rounds"] <= len(rounds) <= 7
    assert row["response_p50_s"] <= row["response_p99_s"]


@pytest.mark.slow
def test_compare_finds_four_workers_faster_than_two() -> None:
    said = fab(
        "compare:3x2/sleep_short_sync,3x4/sleep_short_sync,users=8,quick=yes,format=json",
        timeout=180,
    )
    found = json.loads(said.stdout)
    if found["verdict"] == "disturbed":
        assert said.returncode == 7
        pytest.skip(f"the machine is not quiet: {found['disturbed']}")
    assert said.returncode == 0, said.stderr
    assert found["verdict"] == "faster"
    assert 3 <= found["pairs"] <= 7
    assert 1.2 < found["ratio_low"] <= found["ratio"] <= found["ratio_high"] < 3


@pytest.mark.slow
def test_a_case_compared_with_itself_is_not_faster() -> None:
    said = fab(
        "compare:3/sleep_short_sync,3/sleep_short_sync,users=8,quick=yes,format=json", timeout=180
    )
    found = json.loads(said.stdout)
    assert said.returncode in (0, 7), said.stderr
    assert found["verdict"] in ("same", "tiny", "unresolved", "disturbed")
    assert 0.8 < found["ratio"] < 1.25
    assert {trial.case_index for trial in trials()} == {0, 1}


PAIR = "compare:2/sleep_short_sync,3/sleep_short_sync,users=2,quick=yes"  # leaves the CPU idle


def interrupted(mark: Alive, by: signal.Signals) -> tuple[int, str]:
    """Start a comparison and end it within its second round; return its exit code and stderr."""
    run = subprocess.Popen([FAB, PAIR], cwd=ROOT, stdout=-3, stderr=-1, text=True)
    try:
        while not (line := read_line(run.stderr)).startswith("[round 2]"):
            assert line
        assert wait_until(lambda: sum("offload.servers" in p.cmdline() for p in mark()) >= 2)
        run.send_signal(by)
        said = run.communicate(timeout=20)[1]
    finally:
        run.kill()
        run.wait(20)
    assert wait_until(lambda: not mark()), mark()
    return run.returncode, said


@pytest.mark.slow
def test_ctrl_c_within_a_round_stops_all_servers_and_keeps_whole_rounds(mark: Alive) -> None:
    code, said = interrupted(mark, signal.SIGINT)
    assert code == 130
    kept = trials()
    assert {trial.round for trial in kept} == {1}
    [line] = said.splitlines()
    run = kept[0].run
    assert line == (
        f"interrupted: {len(kept)} finished loads are kept, and printed by offload report {run}: "
        f"continue with offload resume {run}"
    )
    assert "\nthreads,sleep_short_sync: " in fab_here(f"report:{run}").stdout


@pytest.mark.slow
def test_resume_after_kill_9_repeats_and_loses_nothing(mark: Alive) -> None:
    code, _ = interrupted(mark, signal.SIGKILL)
    assert code == -signal.SIGKILL
    finished = trials()
    assert set(windows_by_round().values()) == {4}  # two of each server
    said = fab("resume:format=json", timeout=120)
    assert said.returncode in (0, 7), said.stderr
    assert trials()[: len(finished)] == finished
    assert set(windows_by_round().values()) == {4}
    assert json.loads(said.stdout)["pairs"] == len({trial.round for trial in trials()})


def test_two_processes_never_add_to_one_run() -> None:
    run = subprocess.Popen([FAB, "measure:3/sleep_short_sync,users=2"], cwd=ROOT, stderr=-1)
    try:
        while "[round 1]" not in read_line(run.stderr):
            pass
        said = fab("resume")
    finally:
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=20)
    assert (said.returncode, "is being measured by another process" in said.stderr) == (5, True)
