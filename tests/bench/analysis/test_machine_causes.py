"""Causes in what the machine allows a server, and those that look alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from offload.causes import diagnosis
from offload.causes.diagnosis import NOTHING
from offload.causes.execution import CPU_SATURATED, GIL_SATURATED, LOOP_BLOCKED, WAITS_ELSEWHERE
from offload.causes.machine import CPU_QUOTA
from offload.engine import builder
from offload.engine.record import Application, Record, Route, Throttling
from tests.records import changed, record_of

RECORD = record_of("run", "uvicorn_httptools", "app=shop:app", 25, "run_server", "2026-01-01")
# one process that computes for 20 ms a request and uses 1 of 2 cores
VALUES = {
    "rate": 50.0,
    "alone_s": 0.02,
    "cpu_ms_per_request": 20.0,
    "cores_used": 1.0,
    "completed": 150,
    "elapsed_s": 3.0,
    "environment": {"cores": 2},
}


def record(*, inside_s: float = 0.5, run_s: float = 0.001, **values: Any) -> Record:
    """Return the record of an application that computes, with other values."""
    own = Application("asgi", routes=(Route("GET /", 150, inside_s, 0.02, run_s, run_s),))
    own = replace(own, inside_s=inside_s, processes=1)
    return replace(changed(RECORD, **VALUES | values), application=own)


def kinds(*records: Record) -> list[str]:
    return [cause.kind for cause in diagnosis.diagnose(records)]


THROTTLED = Throttling(1.0, 30, 26, 2.1)


def test_a_quota_that_stops_the_server_explains_what_a_stopped_thread_looks_like() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"cores_used": 1.0, "environment": {"cores": 1}}, CPU_SATURATED),
        ({"gil_utilisation": 0.97}, GIL_SATURATED),
        ({"run_s": 0.02, "inside_s": 0.02}, LOOP_BLOCKED),
        ({"cores_used": 0.2, "cpu_ms_per_request": 4.0, "gil_utilisation": 0.2}, WAITS_ELSEWHERE),
    ]
    for values, alike in cases:
        assert alike in kinds(record(**values))
        assert kinds(record(throttling=THROTTLED, **values)) == [CPU_QUOTA]


def test_a_quota_that_stops_it_seldom_or_never_is_no_cause() -> None:
    saturated = {"cores_used": 1.9, "gil_utilisation": 0.5}
    for throttling in (Throttling(2.0, 30, 7, 0.1), Throttling(2.0, 30, 0, 0.0), Throttling()):
        assert kinds(record(throttling=throttling, **saturated)) == [CPU_SATURATED]
    idle = Throttling(2.0, 0, 0, 0.0)  # the group did not run
    fast = {"alone_s": 0.5, "cores_used": 0.5, "gil_utilisation": 0.5, "model": "closed"}
    assert kinds(record(throttling=idle, **fast)) == [NOTHING]


def test_periods_of_all_windows_count() -> None:
    windows = [record(throttling=each) for each in (THROTTLED, Throttling(1.0, 30, 0, 0.0))]
    [cause] = diagnosis.diagnose(windows)
    assert cause.facts == Throttling(1.0, 60, 26, 2.1)
    assert diagnosis.sentence(cause, 25).startswith(
        "26 of 60 periods were throttled: the quota of 1 CPU"
    )
    assert kinds(record(throttling=THROTTLED), record(), record()) == [CPU_QUOTA]


def test_a_throttled_load_of_any_server_is_flagged() -> None:
    found = {flag.kind: flag for flag in builder.trial_flags(changed(RECORD, throttling=THROTTLED))}
    assert "26 of 30 periods were throttled" in found["throttled"].message
    seldom = changed(RECORD, throttling=Throttling(1.0, 30, 7, 0.1))
    assert "throttled" not in {flag.kind for flag in builder.trial_flags(seldom)}
