"""A run that ends early says how it goes on, and one that is finished shows no progress."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offload.bench.experiments import run as running
from offload.bench.records import journal, schedule
from offload.bench.records.plan import Plan
from offload.bench.records.record import Record
from offload.cli import plan_run
from offload.errors import UsageError
from offload.suites import Case
from tests.records import new_record

PLAN = Plan("measure", (Case("threads", "noop_sync"),), seed=1, driver=None, quick=True)


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        (2, r"fix it; 2 finished visits are kept: continue with fab resume:a_run$"),
        (0, r"fix it$"),
    ],
)
def test_an_error_in_a_run_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int, expected: str
) -> None:
    def broken(plan: Plan, folder: Path) -> Iterator[list[Record]]:
        for _ in range(finished):
            journal.append(folder, new_record(PLAN.cases[0], "a_run", None))
        yield from ()
        raise UsageError("servers/x.py:1 cannot be read: fix it")

    monkeypatch.setattr(running, "run", broken)
    (tmp_path / "a_run").mkdir()
    with pytest.raises(UsageError, match=expected):
        plan_run.continue_run(PLAN, tmp_path / "a_run")


def test_a_finished_run_shows_no_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "due", lambda *_: [])
    monkeypatch.delattr(running, "Progress")
    assert list(running.run(PLAN, tmp_path)) == []
