"""`offload quick` end to end: without arguments, with all rows, their records and their report."""

from __future__ import annotations

import json
from collections.abc import Callable

import psutil
import pytest

from offload.engine import journal
from offload.engine.record import LONG, WINDOW
from offload.registry import catalog
from offload.suites import tornado
from tests.commands import fab, fab_here
from tests.waiting import wait_until

MOST = 1500  # s; 5 minutes alone


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timing  # beside other tests, the time is not enough for three rounds
@pytest.mark.timeout(MOST + 60)
def test_quick_ends_by_itself_with_all_rows(mark: Callable[[], list[psutil.Process]]) -> None:
    said = fab("quick:driver=builtin", timeout=MOST)
    assert said.returncode == 0, said.stderr
    assert wait_until(lambda: not mark()), mark()
    expected = [case.quick() for case in tornado.GROUPS["published"]]
    assert len(expected) == 14

    run = journal.newest()
    assert said.stdout.rstrip().endswith(str(run / "results.txt"))
    names = {f"{case.server},{case.task}" for case in expected}
    rows = [line.split()[0] for line in said.stdout.splitlines() if line.split()[:1]]
    assert len([row for row in rows if row in names]) == len(expected)
    assert "GIL effects: processes over threads" in said.stdout

    records = journal.read(run)
    for case in expected:
        own = [record for record in records if record.key == case.key]
        is_remote = "internet" in catalog.find_task(case.task).needs
        if is_remote and all(record.result.rate is None for record in own):
            assert all("not available" in str(record.problem) for record in own)
            continue  # without the internet, the case has no long run
        [long] = [record for record in own if record.trial.kind == LONG]
        assert (long.load.driver, long.problem) == ("builtin", None)
        assert (long.result.rate or 0) > 0
        assert len({record.trial.round for record in own if record.trial.kind == WINDOW}) >= 3

    kept = (run / "results.txt").read_text()
    assert kept == (journal.RESULTS / "results.txt").read_text()
    assert fab_here("report").stdout in kept
    rows = json.loads(fab_here("report:format=json").stdout)["rows"]
    assert [row["command"] for row in rows] == [case.command for case in expected]
