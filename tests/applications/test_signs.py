"""A record shows what limits an application, as figures: measured on real ones, and derived."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from offload.causes import diagnosis, execution
from offload.causes.diagnosis import NOTHING, UNEXPLAINED
from offload.causes.execution import GIL_SATURATED, LOOP_BLOCKED, THREAD_LIMIT, WAITS_ELSEWHERE
from offload.causes.figures import Signs, figures, signs, signs_of_case
from offload.causes.rules import Cause
from offload.engine import journal
from offload.engine.application import Application, Route, ThreadLimit, Threads
from offload.engine.record import Record, from_line, to_line
from offload.registry import catalog
from offload.suites import Case, Request
from tests import ROOT
from tests.applications import APPS
from tests.installed import require
from tests.records import changed, record_of
from tests.rounds import measure_window

server = [pytest.mark.server, pytest.mark.timeout(120)]
RECORD = record_of("run", "hypercorn", "app=shop:app", 25, "run_server", "2026-01-01")


def measured(name: str, app: str, path: str, users: int = 8, **settings: Any) -> Record:
    """Measure one window of an application; its record is read back as from a file."""
    require(name)
    request = Request(path)
    work = catalog.find_task(f"app={app}").name
    case = Case(name, work, users, settings=settings, path=str(APPS), request=request)
    record = measure_window(case, with_gil=True)
    assert record.problem is None, record.problem
    assert from_line(to_line(record)).application == record.application
    return record


class TestMeasured:
    """Real servers under load."""

    pytestmark = server

    def test_a_route_that_blocks_the_loop_is_named(self) -> None:
        record = measured("uvicorn_httptools", "pure:app", "/block")
        [cause] = diagnosis.diagnose([record])
        assert (cause.kind, cause.route) == (LOOP_BLOCKED, "GET /block")
        assert cause.value is not None and 0.1 <= cause.value < 0.3
        found = signs(record)
        assert found is not None and found.loop_blocked_by == "GET /block"
        assert found.loop_blocked_by_s is not None and 0.1 <= found.loop_blocked_by_s < 0.3

    def test_a_pool_of_one_connection_is_a_wait_elsewhere_that_limits(self) -> None:
        record = measured("uvicorn_httptools", "pure:app", "/wait")
        found = signs(record)
        assert found is not None
        assert found.wait_share is not None and found.wait_share > 0.8
        assert found.stretch is not None and 3 < found.stretch < 24  # 8 users, one at a time
        assert found.concurrency is not None and 4 < found.concurrency <= 9
        assert record.application.inside_most is not None and record.application.inside_most <= 8
        known = figures([record])
        assert known is not None and known.busy_each is not None
        if known.busy_each < execution.IDLE:  # else it waited for a CPU
            [cause] = diagnosis.diagnose([record])
            assert cause.kind == WAITS_ELSEWHERE
            assert cause.limit is not None and cause.limit < 8  # 1 on a quiet machine

    def test_a_computation_in_threads_holds_the_gil(self) -> None:
        record = measured("gunicorn_gthread", "pure:wsgi", "/cpu")
        found = signs(record)
        assert found is not None
        if found.gil_utilisation is not None:  # else no core was free for the sampler
            assert found.gil_utilisation > 0.5
        assert record.gil.hold.value is None or record.gil.hold.value > 0.4
        assert (found.loop_blocked_s, found.limiter_full) == (None, None)
        assert record.application.cpu_s is not None and record.tasks.cpu_s is not None

    def test_all_threads_of_anyio_in_use_are_a_sign(self) -> None:
        pytest.importorskip("fastapi", reason="fastapi is not installed: make test-all")
        record = measured("uvicorn_httptools", "fast:app", "/quote/7", users=100)
        [cause] = diagnosis.diagnose([record])
        assert (cause.kind, cause.limit) == (THREAD_LIMIT, 40)

    def test_the_memory_is_that_of_the_largest_worker(self) -> None:
        record = measured("gunicorn_asgi", "pure:app", "/", processes=2)
        own, whole = record.application, record.resources.memory
        assert own.processes == 2
        assert own.memory.pss_mib is not None and whole.pss_mib is not None
        assert 1 < own.memory.pss_mib < whole.pss_mib


LAG = {"loop_lag_p99_ms": 120.0}
ROUTES = (Route("GET /a", 9, 0.2, 0.1, 0.03, 0.09), Route("GET /b", 1, 0.2, 0.1, 0.05, 0.05))


def of(own: Application, **values: Any) -> Signs:
    """Return the signs of a record with values."""
    found = signs(replace(changed(RECORD, **values), application=own))
    assert found is not None
    return found


def causes(own: Application, **values: Any) -> list[Cause]:
    """Return what limits the application of a record with values."""
    record = replace(changed(RECORD, **values), application=own)
    return diagnosis.diagnose([record])


def test_a_record_without_an_application_has_no_signs() -> None:
    assert signs(RECORD) is None
    assert signs_of_case([RECORD]) is None
    assert diagnosis.as_dict([RECORD]) is None


def test_the_blocking_route_is_the_one_whose_requests_run_longest() -> None:
    found = of(Application("asgi", routes=ROUTES), **LAG)
    assert (found.loop_blocked_s, found.loop_blocked_by) == (0.12, "GET /b")
    assert found.loop_blocked_by_s == 0.05
    assert of(Application("wsgi", routes=ROUTES), **LAG).loop_blocked_by is None


def test_without_figures_signs_are_unknown_and_no_cause_is_named() -> None:
    found = of(Application("asgi"))
    assert found == Signs()
    assert causes(Application("asgi")) == []


def test_a_wait_is_elsewhere_only_if_nothing_here_explains_it() -> None:
    own = Application("asgi", inside_s=1.0, threads=Threads(ThreadLimit(40, 3, 0, 0.0)))
    values = {
        "cpu_ms_per_request": 10.0,
        "completed": 80,
        "elapsed_s": 10.0,
        "cores_used": 0.08,
        "rate": 8.0,
        "alone_s": 0.1,
        "gil_utilisation": 0.2,
        "model": "closed",
    }

    def kinds(own: Application = own, **others: Any) -> list[str]:
        return [cause.kind for cause in causes(own, **values | others)]

    found = of(own, **values)
    assert (found.wait_share, found.concurrency, found.stretch) == (0.99, 8.0, 10.0)
    assert kinds() == [WAITS_ELSEWHERE]
    assert kinds(alone_s=0.9) == [UNEXPLAINED]  # 25 users allow 28/s
    assert kinds(alone_s=3.0) == [NOTHING]
    assert kinds(gil_utilisation=0.95) == [GIL_SATURATED]
    blocked = replace(own, routes=(Route("GET /a", 80, 1.0, 0.0, 0.1, 0.1),))
    assert kinds(replace(blocked, threads=Threads())) == [LOOP_BLOCKED]
    assert of(own, **values | {"queued_s": 48.0}).wait_share == 0.39
    assert kinds(queued_s=48.0) == [NOTHING]  # it waited for a CPU
    full = replace(own, threads=Threads(ThreadLimit(40, 40, 9, 0.7)))
    assert kinds(full) == [WAITS_ELSEWHERE]  # in threads 50 times as long as alone
    assert kinds(full, rate=400.0) == [THREAD_LIMIT]
    assert kinds(cpu_ms_per_request=900.0) == [UNEXPLAINED]


def test_signs_and_causes_of_a_case_are_of_the_medians_of_its_windows() -> None:
    records = [
        replace(
            changed(RECORD, loop_lag_p99_ms=lag, rate=20.0),
            application=Application("asgi", routes=(Route("GET /a", 9, run_s, 0.0, run_s, run_s),)),
        )
        for lag, run_s in ((1.0, 0.001), (500.0, 0.2), (30.0, 0.03))
    ]
    found = signs_of_case(records)
    assert found is not None and (found.loop_blocked_s, found.loop_blocked_by_s) == (0.03, 0.03)
    said = diagnosis.note(records)
    assert said is not None
    assert said.startswith("the event loop is blocked: GET /a runs on it for 30 ms without a pause")
    values = diagnosis.as_dict(records)
    assert values is not None and values["loop_blocked_s"] == 0.03
    assert values["causes"] == [asdict(cause) for cause in diagnosis.diagnose(records)]


def test_older_records_are_read_and_have_no_application() -> None:
    for folder in (ROOT / "results").glob("example*"):
        assert {record.application for record in journal.read(folder)} == {Application()}
