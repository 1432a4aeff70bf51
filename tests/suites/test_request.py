"""A case's request is sent by warm-up and load, stored in its records and shown in its row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offload import tasks
from offload.documents.rows import case_label, rows
from offload.engine import builder
from offload.engine.record import LONG, WINDOW, from_line, to_line
from offload.engine.run import long_run
from offload.suites import Case, Request, fastapi_strawberry
from tests.installed import MISSING, reason
from tests.records import changed, new_record
from tests.rounds import measure_window

ASKED = Case("threads", "noop_sync", users=2, request=Request("/?a=b"))
MEASURED = replace(ASKED, task="sleep_short_sync")  # leaves the CPU idle


@pytest.mark.server
def test_a_record_has_the_request_and_its_url() -> None:
    record = measure_window(MEASURED, at_least_s=0.1)
    assert (record.problem, record.case.request) == (
        None,
        {"path": "/?a=b", "method": "GET", "body": None},
    )
    assert record.load.url is not None
    assert record.load.url.endswith("/?a=b")
    assert record.key == MEASURED.key == from_line(to_line(record)).key
    assert record.baseline.body_bytes == len(tasks.call(MEASURED.task))


@pytest.mark.server
def test_a_path_that_is_not_served_is_a_problem() -> None:
    record = measure_window(replace(ASKED, request=Request("/no")))
    assert "answered 404" in str(record.problem)


@pytest.mark.slow
@pytest.mark.server
def test_a_long_run_may_be_of_a_number_of_requests() -> None:
    made = builder.new_trial("run", kind=LONG)
    record = long_run(replace(ASKED, requests=30), "builtin", made, None, lambda *_: None)
    assert (record.result.completed, record.case.requests, record.case.seconds) == (30, 30, None)


def test_two_requests_of_one_server_are_two_rows_that_name_them() -> None:
    other = replace(ASKED, request=Request("/graphql", "POST", '{"query": "{ blocking }"}'))
    records = [
        changed(new_record(case, "run", None), kind=WINDOW, round=1) for case in (ASKED, other)
    ]
    assert [case_label(row.first) for row in rows(records)] == [
        "run_server:3,noop_sync  GET /?a=b",
        'run_server:3,noop_sync  POST /graphql {"query": "{ blocking }"}',
    ]


def test_a_long_body_is_shortened_in_words() -> None:
    words = Request("/x", "POST", "y" * 100).short_form
    assert words == f"POST /x {'y' * 37}..."


@pytest.mark.suites
@pytest.mark.skipif(bool(MISSING["fastapi_strawberry"]), reason=reason("fastapi_strawberry"))
def test_a_blocking_resolver_serves_one_user_after_the_other_and_a_pool_all() -> None:
    cases = [case.quick() for case in (fastapi_strawberry.NAIVE, fastapi_strawberry.POOL)]
    blocked, pooled = (measure_window(case, suite="fastapi_strawberry") for case in cases)
    assert blocked.problem is pooled.problem is None
    assert blocked.baseline.content == pooled.baseline.content
    assert (blocked.result.rate or 0) < 10.5
    assert (pooled.result.rate or 0) > 3 * (blocked.result.rate or 0)
