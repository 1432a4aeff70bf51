"""Measuring, comparing and going on with a run, as a user types them; all with real servers."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

import catalog
from bench import doctor, journal
from tests.commands import FAB, fab
from tests.test_fab import Alive
from tests.waiting import wait_until


def test_measure_ends_in_one_row_with_an_interval() -> None:
    said = fab("measure:3/noop_sync,users=4,quick=yes,format=json")
    [row] = json.loads(said.stdout)
    assert said.returncode == 0
    assert row["rate_low"] < row["rate"] < row["rate_high"]
    assert (row["command"], row["model"]) == ("fab run_server:3,noop_sync", "closed")
    assert row["visits"] in (3, 5, 7)
    assert row["response_p50_s"] <= row["response_p99_s"]


def test_compare_finds_four_workers_faster_than_two() -> None:
    said = fab("compare:3x2/sleep_short_sync,3x4/sleep_short_sync,users=8,quick=yes,format=json")
    found = json.loads(said.stdout)
    assert said.returncode == 0, said.stderr
    assert (found["verdict"], found["pairs"]) == ("faster", 5)
    assert "5 pairs: 3x4/sleep_short_sync is " in said.stderr
    assert " times 3x2/sleep_short_sync: faster" in said.stderr
    assert 1.8 < found["ratio_low"] <= found["ratio"] <= found["ratio_high"] < 2.2


def test_scale_refuses_a_model_of_two_points() -> None:
    said = fab("scale:3/sleep_short_sync,workers=1+2,users=4,format=json")
    found = json.loads(said.stdout)
    assert [point["workers"] for point in found["points"]] == [1, 2]
    assert (found["model"], "different" in found["refused"]) == (None, True)
    assert said.stderr.startswith("rates only, no model: 2 different N")


def test_resume_repeats_and_loses_no_finished_visit_after_kill_9(mark: Alive) -> None:
    run = subprocess.Popen(
        [FAB, "measure:3/noop_sync,users=2,quick=yes"], cwd=catalog.ROOT, stderr=-3
    )
    assert wait_until(lambda: len(visits()) >= 2, 40)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert wait_until(lambda: not mark(), 20), mark()
    finished = visits()
    said = fab("resume:format=json", timeout=120)
    assert said.returncode == 0, said.stderr
    assert visits()[: len(finished)] == finished
    assert len({*visits()}) == len(visits()) >= 3


def visits() -> list[tuple[int | None, int, str]]:
    """Give round, attempt and time of what is on disk."""
    runs = [path.parent for path in journal.RESULTS.glob(f"*/{journal.FILE}")]
    return [(r.round, r.attempt, r.utc) for run in runs for r in journal.read(run)]


def test_two_processes_never_add_to_one_run() -> None:
    run = subprocess.Popen([FAB, "measure:3/noop_sync,users=2"], cwd=catalog.ROOT, stderr=-3)
    assert wait_until(visits, 40)
    said = fab("resume")
    run.send_signal(signal.SIGINT)
    run.wait()
    assert (said.returncode, "is being measured by another process" in said.stderr) == (5, True)


def test_the_doctor_tells_of_tools_limits_and_noise_with_remedies() -> None:
    found = list(doctor.findings())
    names = {"siege", "builtin", "port 8000", "descriptors", "CPU of others", "results"}
    assert names <= {finding.name for finding in found}
    assert all(": " in f.words for f in found if f.level != doctor.OK)
    said = fab("doctor")
    assert said.returncode == (3 if f"\n{doctor.WRONG} " in said.stdout else 0)


WRONG = {
    "run_suite:all,rows=no": "rows='no'",
    "measure": "which case? a case is SERVER/TASK",
    "measure:3": "is no case",
    "measure:9/sleep_sync": "in servers/",
    "measure:3x0/sleep_sync": "workers are from 1 to 256",
    "measure:2x4/sleep_sync": "has no workers",
    "measure:3@9.99/sleep_sync": "PYTHONS=9.99=",
    "measure:3/sleep_sync,target=0": "not a number from 0.1 to 50",
    "gil:noop_sync,python=3.99": "no Python at '3.99'",
    "compare": "which first case?",
    "compare:3/sleep_sync": "which second case?",
    "scale:3/sleep_sync": "over what? workers=1..16",
    "scale:3/sleep_sync,workers=9..2": "does not rise",
    "scale:1/sleep_sync,workers=1..4": "sync has no workers",
    "run_suite": "which suite? fab run_suite:NAME",
    "gil": "which task? fab gil:TASK",
    "gil:uvicorn_h11,noop_sync": "'uvicorn_h11' is a server, where a task is wanted",
    "measure:3/threads": "'threads' is a server, where a task is wanted",
    "run_suite:tornad": "did you mean tornado?",
    "run_all_load_tests:rows=some": "published, later",
    "run_load_test:driver=siege,rate=5,url=http://127.0.0.1:1/": "siege has no open loop",
}


@pytest.mark.parametrize("words", list(WRONG))
def test_a_wrong_word_is_one_line_and_leaves_no_run(words: str) -> None:
    said = fab(words)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert WRONG[words] in said.stderr
    assert list(journal.RESULTS.glob("*/*")) == []
