"""Each process that runs tasks reports its GIL and its clocks, or its GIL is found from outside."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from offload.engine import gil_sampler, server, server_reports
from offload.engine.record import from_line, to_line
from offload.studies.gil.figures import gil_figures
from offload.suites import Case
from tests.installed import require
from tests.rounds import measure_window

TASKS = Path(__file__).parents[1] / "telemetry" / "gil_tasks.py"
Start = Callable[..., server.Server]
pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="the memory of others is read on Linux"),
]
SERVERS = [
    ("threads", 2),
    ("prefork", 2),
    ("gunicorn_gthread", 2),
    ("gunicorn_sync", 2),
    ("gunicorn_gevent", 2),
    ("gunicorn_asgi", 2),
    ("granian_wsgi", 2),
    ("granian_rsgi", 2),
    ("uvicorn_workers", 2),
    ("starlette_threads", 2),
]


@pytest.mark.usefixtures("accept_late_samples")
@pytest.mark.parametrize(
    "name", ["threads", "gunicorn_gthread", "granian_wsgi", "starlette_threads"]
)
def test_a_record_has_the_share_of_the_gil_of_each_process_and_its_clocks(name: str) -> None:
    require(name)
    settings = {"processes": 2, "workers": 2}
    record = measure_window(
        Case(name, f"{TASKS}:computes", users=8, settings=settings), with_gil=True
    )
    assert (record.problem, record.gil.why) == (None, None)
    low, high = sorted(record.gil.each)
    assert record.gil.utilisation.value == pytest.approx((low + high) / 2, abs=1e-3)
    assert high > 0.3
    assert record.gil.hold.value is not None and record.gil.hold.value > 0.5
    assert record.tasks.wall_s is not None and record.tasks.alone_cpu_s is not None
    found = gil_figures(record)
    assert found.wait_share is not None and found.inflation is not None
    assert record.tasks.wall_s > 0
    assert from_line(to_line(record)).gil == record.gil


@pytest.mark.parametrize(("name", "processes"), SERVERS)
def test_the_gils_are_those_of_the_processes_that_run_tasks(
    name: str, processes: int, start: Start
) -> None:
    size = "workers" if name == "gunicorn_sync" else "processes"
    require(name)
    running = start(name, "noop_sync", **{size: processes})
    found = gil_sampler.gil_addresses(server_reports.with_gils(running.facts))
    pids = {each.pid for each in found}
    assert len(pids) == len(found) == processes
    assert pids <= {p.pid for p in psutil.Process(running.process.pid).children(recursive=True)}
    locked, _ = gil_sampler.GilReader(found).read()
    assert len(locked) == processes
    outside = server_reports._locate_gils(server_reports._task_pids(running.facts))
    assert {*found} == {*gil_sampler.gil_addresses({"worker_gil_addresses": outside})}


def test_what_is_reported_or_unknown_stays(start: Start) -> None:
    assert server_reports.with_gils({}) == {}
    reported = start("threads", "noop_sync").facts
    assert server_reports.with_gils(reported) is reported
    ended = {"external_workers": "gunicorn", "server": "gunicorn_sync", "pid": 2**22, "port": 1}
    assert server_reports.with_gils(ended) is ended


def test_the_threads_of_dirty_workers_do_not_count(start: Start) -> None:
    running = start("gunicorn_dirty", "noop_sync", workers=1)
    assert server_reports.with_gils(running.facts) is running.facts
