"""The GIL of a server without a reported address is found from outside, where its tasks run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from offload.bench.target import server
from offload.bench.telemetry import gil_sampler
from offload.bench.trial import server_report
from offload.suites import Case
from tests.installed import require
from tests.rounds import measure_window

TASKS = Path(__file__).parents[1] / "telemetry" / "gil_tasks.py"
Start = Callable[..., server.Server]
pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="the memory of others is read on Linux"),
]
SERVERS = [("gunicorn_gthread", 1), ("gunicorn_sync", 2), ("granian_wsgi", 2), ("prefork", 2)]


@pytest.mark.usefixtures("accept_late_samples")
@pytest.mark.parametrize("name", ["gunicorn_gthread", "granian_wsgi", "prefork"])
def test_a_record_has_the_share_of_the_gil_of_a_server_that_reports_none(name: str) -> None:
    require(name)
    case = Case(name, f"{TASKS}:computes", users=2, settings={"processes": 1})
    record = measure_window(case)
    assert (record.problem, record.gil.why) == (None, None)
    assert record.gil.utilisation.value is not None
    assert record.gil.utilisation.value > 0.5
    assert record.gil.hold.value is None


@pytest.mark.parametrize(("name", "processes"), SERVERS)
def test_the_gils_are_those_of_the_processes_that_run_tasks(
    name: str, processes: int, start: Start
) -> None:
    size = "workers" if name == "gunicorn_sync" else "processes"
    running = start(name, "noop_sync", **{size: processes})
    found = gil_sampler.gil_addresses(server_report.with_gils(running.facts))
    pids = {each.pid for each in found}
    assert len(pids) == len(found) == processes
    assert pids <= {p.pid for p in psutil.Process(running.process.pid).children(recursive=True)}
    locked, _ = gil_sampler.GilReader(found).read()
    assert 0 <= locked <= processes


def test_what_is_reported_or_unknown_stays(start: Start) -> None:
    assert server_report.with_gils({}) == {}
    reported = start("threads", "noop_sync").facts
    assert server_report.with_gils(reported) is reported
    forking = start("fork_per_request", "noop_sync").facts
    assert server_report.with_gils(forking) is forking
    ended = {"external_workers": "gunicorn", "server": "gunicorn_sync", "pid": 2**22, "port": 1}
    assert server_report.with_gils(ended) is ended


def test_the_threads_of_dirty_workers_do_not_count(start: Start) -> None:
    running = start("gunicorn_dirty", "noop_sync", workers=1)
    assert server_report.with_gils(running.facts) is running.facts
