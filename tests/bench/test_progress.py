"""The progress of a run says what its reader would ask next."""

from __future__ import annotations

import pytest

from offload.bench.experiments.progress import Progress
from offload.bench.records.plan import Plan
from offload.bench.records.schedule import due
from offload.bench.trial import flags
from offload.suites import Case
from tests.records import changed, new_record

CASE = Case("threads", "noop_sync")
PLAN = Plan("measure", (CASE,), seed=7, driver=None)


def test_a_visit_that_is_made_again_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    first = changed(new_record(CASE, "run", None), flags=("others: 31% went: end them",))
    todo = due(PLAN, [])
    progress = Progress(PLAN, todo, [])
    progress.begin(todo[0], todo)
    progress.done(first)
    progress.again(flags.reasons(first, []))
    progress.done(changed(first, attempt=2, rate=14.0))
    lines = capsys.readouterr().err.splitlines()
    assert "again" not in lines[0]
    assert lines[1].endswith("14.00 trans/s, measured again: 31% went")
