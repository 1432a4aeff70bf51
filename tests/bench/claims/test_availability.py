"""A published availability is compared with the availability of the case's long run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offload.engine import claim_evaluation
from offload.engine.decisions import DOES_NOT, HOLDS, IN_PART, NOT_COMPARABLE, UNRESOLVED
from offload.engine.record import LONG, Record
from offload.suites import Availability, Case
from tests.records import changed, new_record

CASE = Case("sync", "sleep_sync")
ONE = Availability("sync", "who", "where", "some fail", CASE, 0.9677, "siege, 60 s")


def long(completed: int, failed: int, quick: bool = False) -> Record:
    made = changed(new_record(CASE, "run", None), kind=LONG, quick=quick)
    return changed(made, completed=completed, failed={"timeout": failed, "unfinished": 9})


@pytest.mark.parametrize(
    ("completed", "failed", "word"),
    [
        (210, 7, HOLDS),
        (200, 30, HOLDS),  # more fail
        (2000, 7, IN_PART),
        (213, 0, DOES_NOT),
        (20, 0, UNRESOLVED),  # too few to tell
    ],
)
def test_the_verdict_on_a_share_depends_on_its_interval(
    completed: int, failed: int, word: str
) -> None:
    found = claim_evaluation.evaluate_availability("a_suite", ONE, [long(completed, failed)])
    assert found.verdict == word
    assert found.here == pytest.approx(100 * completed / (completed + failed))
    assert (found.published, found.unit, found.figure) == (96.77, " %", "availability")


def test_a_quick_run_is_too_short_for_a_verdict() -> None:
    for records in (None, [], [long(210, 7, quick=True)]):
        assert claim_evaluation.evaluate_availability("a_suite", ONE, records).verdict == UNRESOLVED


def test_other_work_is_not_compared() -> None:
    other = replace(ONE, work="it fetched less")
    found = claim_evaluation.evaluate_availability("a_suite", other, [long(210, 7)])
    assert (found.verdict, found.reason) == (NOT_COMPARABLE, "it fetched less")
