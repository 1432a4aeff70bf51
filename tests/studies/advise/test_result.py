"""From records to evidence."""

from __future__ import annotations

from offload.bench.records.record import LONG, WINDOW
from offload.studies.advise.evidence import THREADS, Setup
from offload.studies.advise.result import ALONE, case_of, evidence
from offload.suites import Case
from tests.records import new_record

CASE = Case("threads", "app=shop:app")
ALONE_SETUP = Setup("gunicorn_gthread", THREADS, 1, 64)
RACED = Setup("gunicorn_gthread", THREADS, 2, 2)


def test_one_process_alone_and_a_preloaded_application_are_no_candidates() -> None:
    cases = [case_of(each, CASE, 8) for each in (ALONE_SETUP, RACED, RACED)]
    preloaded = {**cases[2].settings, "preload": "yes"}
    cases[2] = Case("gunicorn_gthread", CASE.task, users=8, settings=preloaded)
    records = [
        new_record(
            cases[place], "run", kind=kind, place=place, round=number, rate=100.0 + (number or 0)
        )
        for place, kind, number in (
            (0, WINDOW, ALONE),
            (1, WINDOW, 1),
            (1, WINDOW, 2),
            (2, LONG, None),
        )
    ]
    [found] = evidence(cases, records, leaks=False)
    assert found.setup == RACED
    assert [*found.rates.values()] == [101.0, 102.0]
    assert found.problem is None
