"""The rate that CPU, users and workers allow: by queueing theory, and by figures of records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import ceiling, diagnosis
from offload.causes.ceiling import CPU, LOAD_TOOL, USERS, WORKERS, Ceiling, Station
from offload.causes.diagnosis import NOTHING, UNEXPLAINED
from offload.causes.failures import IMPORT_STARTS, REQUESTS_FAIL
from offload.causes.figures import figures
from offload.causes.rules import Cause
from offload.engine.application import Application, ThreadLimit, Threads
from offload.engine.record import Record
from tests.records import changed, record_of

SHOP = record_of("run", "uvicorn_httptools", "app=shop:app", 25, "run_server", "2026-01-01")
AWAITS = changed(  # 25 users of a route that awaits 50 ms, in a process that is mostly idle
    replace(SHOP, environment={"cores": 2}),
    rate=480.0,
    completed=960,
    elapsed_s=2.0,
    alone_s=0.05,
    each_s=(0.049, 0.05, 0.05, 0.051),
    cores_used=0.2,
    cpu_ms_per_request=0.4,
    queued_s=0.0,
    model="closed",
    little_ratio=1.0,
    gil_utilisation=0.2,
)


def found(*records: Record, own: Application | None = None, **values: Any) -> Ceiling:
    """Return the ceiling of records with other values; of AWAITS by default."""
    own = own or Application("asgi", processes=1, inside_s=0.052)
    each = [replace(changed(r, **values), application=own) for r in records or (AWAITS,)]
    known = figures(each)
    assert known is not None and known.ceiling is not None
    return known.ceiling


def kinds(*records: Record, own: Application | None = None, **values: Any) -> list[str]:
    own = own or Application("asgi", processes=1, inside_s=0.052)
    each = [replace(changed(r, **values), application=own) for r in records or (AWAITS,)]
    return [cause.kind for cause in diagnosis.diagnose(each)]


def test_one_user_waits_for_all_of_the_times_and_many_for_the_slowest_station() -> None:
    both = [Station(0.002), Station(0.003)]
    assert ceiling.mean_value_analysis(1, 0.005, both) == pytest.approx(100.0)
    assert ceiling.mean_value_analysis(400, 0.005, both) == pytest.approx(1 / 0.003, rel=1e-3)
    # 2 users, one station, by its balance equations with exponential times: 1 / (D (1 - P(0)))
    rate = ceiling.mean_value_analysis(2, 0.01, [Station(0.01)])
    assert rate == pytest.approx(80.0)
    assert ceiling.mean_value_analysis(1.5, 0.01, [Station(0.01)]) == pytest.approx(65.0)
    assert ceiling.mean_value_analysis(0.5, 0.01, [Station(0.01)]) == pytest.approx(25.0)


def test_a_station_of_several_servers_has_their_rate_and_the_time_of_one() -> None:
    station = [Station(0.01, 4)]
    assert ceiling.mean_value_analysis(1, 0.0, station) == pytest.approx(100.0)
    assert ceiling.mean_value_analysis(200, 0.0, station) == pytest.approx(400.0, rel=0.02)


def test_users_limit_a_route_that_awaits_by_littles_law() -> None:
    own = found()
    assert own.by == USERS and own.rate == pytest.approx(25 / 0.05, rel=0.01)
    assert own.reached == pytest.approx(0.96, abs=0.02) and kinds() == [NOTHING]


def test_nothing_is_wrong_is_not_said_beside_failures_or_a_known_cause() -> None:
    assert kinds(failed={"5xx": 9}) == [REQUESTS_FAIL]
    record = replace(AWAITS, application=Application("asgi", processes=1, inside_s=0.052))
    starts = Cause(IMPORT_STARTS, limit=4)
    assert diagnosis.diagnose([record], known=[starts]) == [starts]
    slow = changed(record, rate=240.0)
    assert [each.kind for each in diagnosis.diagnose([slow], known=[starts])] == [
        *kinds(rate=240.0),
        IMPORT_STARTS,
    ]
    assert kinds(rate=430.0) == [NOTHING]  # within 15 %
    assert kinds(rate=300.0, completed=600) == [UNEXPLAINED]
    assert found(rate=300.0, completed=600).reached == pytest.approx(0.6, abs=0.02)


def test_few_responses_and_uncertain_times_alone_leave_the_rate_unexplained_only_if_it_is_far() -> (
    None
):
    assert kinds(rate=380.0, completed=760) == [UNEXPLAINED]
    assert kinds(rate=380.0, completed=60) == [NOTHING]  # 1.96 / sqrt(60) is 25 %
    uncertain = {"each_s": (0.02, 0.04, 0.05, 0.09)}
    assert kinds(rate=380.0, completed=760, **uncertain) == [NOTHING]
    alone = {"alone_task_s": 0.05, "alone_high_s": 0.08}
    assert kinds(rate=380.0, completed=760, **alone) == [NOTHING]
    assert kinds(rate=100.0, completed=200, **uncertain) == [UNEXPLAINED]


def test_three_windows_have_the_interval_of_their_rates() -> None:
    windows = [changed(AWAITS, rate=rate, completed=60) for rate in (330.0, 331.0, 332.0)]
    assert kinds(*windows) == [UNEXPLAINED]
    varying = [changed(AWAITS, rate=rate, completed=60) for rate in (290.0, 380.0, 450.0)]
    assert kinds(*varying) == [NOTHING]
    far = [changed(AWAITS, rate=rate, completed=60) for rate in (250.0, 330.0, 420.0)]
    assert kinds(*far) == []  # 66 % are not nearly all that is allowed, nor certainly less


def test_a_loop_or_a_gil_allows_one_core_of_several() -> None:
    busy = {"alone_s": 0.003, "each_s": (0.003,), "cores_used": 0.98, "rate": 500.0}
    own = found(**busy)
    assert own.by == CPU and own.reached == pytest.approx(0.98, abs=0.03)
    half = {**busy, "cores_used": 0.5, "gil_utilisation": 0.5}
    assert found(**half).reached == pytest.approx(0.5, abs=0.03)
    threads = Application("wsgi", processes=1, inside_s=0.05)
    assert found(own=threads, **{**busy, "gil_utilisation": 0.97}).reached > 0.9
    # a C extension that releases the GIL may use both cores
    released = {**busy, "gil_utilisation": 0.1}
    assert found(own=threads, **released).reached == pytest.approx(0.44, abs=0.05)
    assert found(own=threads, **{**released, "gil_utilisation": None}).reached > 0.9


def test_a_gil_that_is_passed_on_often_has_less_time_to_be_held() -> None:
    threads = Application("wsgi", processes=1, inside_s=0.02)
    short = {"alone_s": 0.001, "each_s": (0.001,), "rate": 2000.0, "completed": 4000}
    busy = {**short, "cores_used": 0.8, "gil_utilisation": 0.75}
    assert found(own=threads, **busy).reached == pytest.approx(0.75, abs=0.03)
    assert found(own=threads, **busy, gil_switches=8000).reached == pytest.approx(0.95, abs=0.03)


def test_a_process_that_waits_for_a_cpu_is_limited_by_it() -> None:
    busy = {"alone_s": 0.003, "each_s": (0.003,), "cores_used": 0.5, "rate": 500.0}
    assert found(**busy, queued_s=0.9).by == CPU
    assert found(**busy, queued_s=0.9).reached > 0.9


def test_the_load_tool_and_other_programs_are_no_fault_of_the_application() -> None:
    slow = {"rate": 300.0, "completed": 600}
    tool = found(**slow, driver_cpu_s=1.98)
    assert tool.by == LOAD_TOOL and tool.reached > 0.9
    assert kinds(**slow, little_ratio=0.6) == [NOTHING]  # 15 users were waiting, not 25
    assert kinds(**slow, others_cpu=0.4) == []
    assert kinds(**slow, others_cpu=0.1) == [UNEXPLAINED]
    assert kinds(rate=480.0, others_cpu=0.3) == [NOTHING]


def test_workers_limit_as_many_requests_as_they_run_at_once() -> None:
    own = Application("wsgi", processes=1, inside_s=0.05)
    record = changed(AWAITS, server="gunicorn_gthread", workers=4)
    limited = found(record, own=own, rate=78.0, completed=156, gil_utilisation=0.03)
    assert limited.by == WORKERS and limited.rate == pytest.approx(80.0, rel=0.02)
    half = {"rate": 39.0, "completed": 300, "cores_used": 0.02, "gil_utilisation": 0.02}
    assert found(record, own=own, **half).reached == pytest.approx(0.49, abs=0.02)
    full = Application("asgi", processes=2, threads=Threads(ThreadLimit(40, 40, 9, 0.9)))
    loaded = found(own=full, users=200, rate=1500.0, completed=3000, cores_used=0.4)
    assert loaded.by == WORKERS and loaded.rate == pytest.approx(80 / 0.05, rel=0.02)


def test_an_open_load_or_missing_figures_have_no_ceiling() -> None:
    own = Application("asgi", processes=1, inside_s=0.052)
    for values in ({"model": "open"}, {"cores_used": None}, {"alone_s": None}, {"rate": None}):
        known = figures([replace(changed(AWAITS, **values), application=own)])
        assert known is not None and known.ceiling is None
