"""Light routes under the load of another one: their times, who is slow, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis, victims
from offload.causes.execution import GIL_SATURATED, LOOP_BLOCKED, THREAD_LIMIT
from offload.documents import notes, results_files
from offload.engine.application import Application, LightRoute, ThreadLimit, Threads
from offload.engine.record import LONG, WINDOW, Record, from_line, to_line
from tests.records import changed, record_of

SHOP = record_of(
    "run", "uvicorn_httptools", "app=shop:app", 60, "run_server", "2026-01-01", rate=20.0
)
SLOW = LightRoute("/healthz", 0.003, (2.0,) * 23 + (2.4,), 0, 0.001)
IDLE = ThreadLimit()
FAST = LightRoute("/livez", 0.002, (0.004,) * 24, 0, 0.001)
FULL = ThreadLimit(40, 40, 20, 0.97)


def record(
    *beside: LightRoute, kind: str = "asgi", limiter: ThreadLimit = IDLE, **values: Any
) -> Record:
    own = Application(kind, processes=1, threads=Threads(limiter), beside=beside)
    return replace(changed(SHOP, kind=WINDOW, **values), application=own)


def said(*found: Record, kinds: tuple[str, ...] = ()) -> str:
    return " ".join(victims.sentences(found, kinds))


def test_a_slow_health_check_is_told_with_its_times_and_its_consequence() -> None:
    text = said(record(FAST, SLOW, limiter=FULL), kinds=(THREAD_LIMIT,))
    assert text == (
        "Under this load /healthz takes 2 s (the longest of 24: 2.4 s), alone 3 ms; "
        "/livez takes 4 ms (the longest of 24: 4 ms), alone 2 ms: "
        "a liveness probe with a timeout of 1 s would restart the process. "
        "Make /healthz async def: a def route waits for one of the 40 threads of anyio, "
        "all of which the loaded route uses."
    )


def test_a_quick_health_check_is_told_in_one_sentence_and_no_route_in_none() -> None:
    assert said(record(FAST)) == (
        "Under this load /livez takes 4 ms (the longest of 24: 4 ms), alone 2 ms."
    )
    assert said(record()) == said() == ""
    assert victims.note([record()], ()) is None
    assert victims.note([record(FAST)], ()) == said(record(FAST)).replace("U", "u").rstrip(".")


def test_few_requests_are_too_few_and_those_of_several_windows_are_added() -> None:
    few = replace(SLOW, taken_s=(2.0,) * 12)
    assert said(record(few)) == (
        "Under this load /healthz had 12 requests, too few: 20 are needed."
    )
    [found] = victims.find([record(few), record(few)])
    assert (found.requests, found.p50_s, found.p99_s, found.longest_s) == (24, 2.0, None, 2.0)
    many = replace(SLOW, taken_s=(*(number / 100 for number in range(60)),))
    [found] = victims.find([record(many), record(many)])
    assert (found.requests, found.p99_s, found.longest_s) == (120, 0.59, 0.59)


def test_times_of_an_open_load_count_only_if_there_is_no_other() -> None:
    long = record(FAST, kind=LONG)
    long = replace(long, trial=replace(long.trial, kind=LONG))
    [found] = victims.find([record(replace(FAST, taken_s=(0.5,) * 24)), long])
    assert found.p50_s == 0.5
    assert victims.find([long])[0].p50_s == 0.004
    assert victims.find([changed(long, problem="not available: it ended")]) == []


@pytest.mark.parametrize(
    ("times", "failed", "consequence"),
    [
        ((0.05,) * 24, 0, ""),
        ((0.3,) * 24, 0, "a liveness probe with a timeout of 1 s still succeeds"),
        ((0.01,) * 23 + (1.2,), 0, "a liveness probe with a timeout of 1 s fails now and then"),
        ((0.01,) * 24, 3, "3 of 24 fail"),
        ((0.01,) * 24, 20, "would restart the process"),
        ((1.1,) * 24, 0, "would restart the process"),
    ],
)
def test_the_consequence_follows_from_the_timeout_of_a_probe(
    times: tuple[float, ...], failed: int, consequence: str
) -> None:
    one = replace(SLOW, taken_s=times, failed=failed)
    text = said(record(one))
    assert consequence in text and ("probe" in text) == bool(consequence)
    assert victims.find([record(one)])[0].is_slow == bool(consequence)


def test_the_remedy_is_that_of_what_it_waits_for() -> None:
    blocked = said(record(SLOW, limiter=FULL), kinds=(LOOP_BLOCKED,))
    assert "/healthz waits for the blocked event loop: fix that first." in blocked
    # 20 users wait for a thread, at 20/s for 1 s; an async route does not
    awaited = replace(SLOW, taken_s=(0.3,) * 24)
    busy = said(record(awaited, limiter=FULL), kinds=(THREAD_LIMIT, GIL_SATURATED))
    assert "async def" not in busy
    assert "/healthz waits for the GIL: serve it from a process of its own" in busy
    few = record(SLOW, kind="wsgi", workers=4, server="gunicorn_gthread")
    assert "/healthz waits for one of the 4 workers of the server: use more than" in said(few)
    assert "Serve /healthz from a process of its own, on a second port." in said(record(SLOW))


def test_requests_that_may_have_changed_the_load_are_told() -> None:
    text = said(record(replace(FAST, share=0.034)))
    assert text.endswith("These requests were 3.4 % of the load, and may have changed it.")


def test_the_line_is_below_a_table_and_in_json_and_a_record_keeps_it() -> None:
    known = record(SLOW, limiter=FULL)
    assert from_line(to_line(known)).application.beside == (SLOW,)
    assert "under this load /healthz takes 2 s" in (diagnosis.note([known]) or "")
    values = diagnosis.as_dict([known])
    assert values is not None
    [found] = values["beside"]
    assert (found["path"], found["requests"], found["p50_s"]) == ("/healthz", 24, 2.0)
    escaped = said(record(replace(SLOW, path="/\x1b[2J")))
    assert "\x1b" not in escaped


def test_of_several_cases_the_slow_ones_are_told_or_else_the_first() -> None:
    fast, slow = record(FAST), record(SLOW, limiter=FULL)
    [told] = notes.case_warnings([("loopx1", [fast]), ("loopx2", [slow])])
    assert told.startswith("loopx2: under this load /healthz takes 2 s")
    [told] = notes.case_warnings([("loopx1", [fast]), ("loopx2", [fast])])
    assert told.startswith("loopx1: under this load /livez takes 4 ms")
    assert notes.case_warnings([("loopx1", [record()])]) == []
    assert "under this load /healthz takes 2 s" in results_files.load_test_text(slow)
