"""Each problem of a load is attributed to its cause."""

from __future__ import annotations

import re

import pytest

from offload.engine import host, load_phase, running_servers, workload
from offload.engine.builder import trial_flags
from offload.engine.load_phase import measure_baseline
from offload.engine.other_programs import SERVICES, ProgramSampler
from offload.engine.record import Baseline, CaseFacts, HostUse, LoadFacts, Resources
from offload.engine.workload import FirstResponses
from offload.loads import Figures, Load
from offload.suites import Request
from tests.loads.conftest import Server
from tests.records import changed, record_of

RECORD = record_of("run", "threads", "noop_sync", 25, "run_server:3,noop_sync", "2026-01-01")


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_count", lambda: 4)


def test_the_cpu_of_all_load_processes_is_not_that_of_others(four_cores: None) -> None:
    used = Resources(cpu_s=1.0, host=HostUse(busy_s=3.2, own_cpu_s=0.1))
    tool = LoadFacts(cpu_s=1.9, busy=0.5)  # four processes, of which the busiest used 0.5 s
    figures = Figures(elapsed_s=1.0, completed=9)
    programs = ProgramSampler(None)
    programs.others = ("postgres (pid 7)",)
    window = (1.0, 2.0)
    shown = load_phase._resources(used, figures, tool, programs, window).host
    assert (shown.others_cpu, shown.services_cpu) == (pytest.approx(0.05), None)  # 0.2 of 4 s
    assert shown.others == ("postgres (pid 7)",)
    for at, used_s in ((1.0, 0.0), (2.0, 0.15)):
        programs._series.add(at, {SERVICES: used_s})  # of called services
    shown = load_phase._resources(used, figures, tool, programs, window).host
    assert (shown.others_cpu, shown.services_cpu) == pytest.approx((0.0125, 0.0375))


@pytest.mark.parametrize(
    ("task", "stable", "expected"),
    [
        ("noop_sync", True, "5a"),
        ("noop_sync", False, None),
        ("network_sync_external", True, None),
        ("time:ctime", True, None),
    ],
)
def test_the_load_expects_the_first_body_of_a_task_whose_bodies_do_not_change(
    monkeypatch: pytest.MonkeyPatch, task: str, stable: bool, expected: str | None
) -> None:
    monkeypatch.setattr(
        load_phase, "send_first_requests", lambda *_: FirstResponses(0.1, b"x", "5a", stable)
    )
    case = CaseFacts("id", "threads", task, "run_server", 25)
    before, _ = measure_baseline(RECORD.trial, case, "http://127.0.0.1/", Request(), {})
    load = workload.load("http://127.0.0.1/", case, before, Request())
    assert load.response_sha256 == expected
    load = workload.load("http://127.0.0.1/", case, Baseline(), Request())
    assert load.response_sha256 is None


@pytest.mark.parametrize(("path", "why"), [("/404", r"4xx: \d+"), ("/hang", "unfinished: 2")])
def test_a_load_without_a_completed_request_is_a_record_with_a_problem(path: str, why: str) -> None:
    """A rate of 0 would be a figure, but nothing was measured."""
    with Server() as server:
        record = running_servers.load_url(Load(server.url(path), users=2, seconds=0.3), "builtin")
    assert record.problem is not None
    expected = rf"no request was completed \({why}(, unfinished: [12])?\): check the responses"
    assert re.fullmatch(expected, record.problem.text)


def test_bodies_that_change_under_load_are_flagged_with_what_to_do() -> None:
    [failures, bodies] = trial_flags(changed(RECORD, failed={"body": 3, "timeout": 0}))
    assert (failures.kind, bodies.kind) == ("failures", "bodies")
    assert str(bodies.message) == "3 responses under load had another body than the first one"
    assert "STABLE = False" in bodies.remedy
    assert trial_flags(changed(RECORD, failed={"body": 0})) == ()
