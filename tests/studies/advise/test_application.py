"""What limits the chosen set-up of an application, and how much of its memory stays shared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis
from offload.causes.execution import GIL_SATURATED, NEW_OBJECTS
from offload.causes.failures import (
    IMPORT_STARTS,
    MEMORY_LIMIT,
    REQUESTS_FAIL,
    WORKER_FAILS,
    FailedRequests,
    FailingSince,
)
from offload.causes.gains import Gain
from offload.causes.memory import PRELOAD_LOST
from offload.causes.pools import WAITS_ELSEWHERE, SharedByProcesses
from offload.causes.rules import Cause
from offload.engine.application import Collector, HotLine, ProcessFailures, ProcessMemory
from offload.engine.record import LONG, WINDOW, MemoryLimit, Record
from offload.studies.advise import application, costs
from offload.studies.advise.application import Application
from offload.studies.advise.evidence import LOOPS, THREADS, Evidence, Question, Setup
from offload.studies.advise.result import ALONE, case_of, setup_of
from offload.studies.advise.study import is_brief
from offload.suites import Case
from tests.records import changed, new_record

ONE = ProcessFailures(1, 100, 40)
PLAIN = Case("gunicorn_gthread", "app=shop:app", settings={"processes": 2, "workers": 4})
CASES = [
    PLAIN,
    *(replace(PLAIN, settings={**PLAIN.settings, "preload": p}) for p in ("yes", "freeze")),
]


def record(case_index: int, kind: str, copied_mib: float | None = None, **limit: Any) -> Record:
    made = new_record(CASES[case_index], "run", rate=80.0)
    own = replace(
        made.application,
        kind="wsgi",
        memory=ProcessMemory(collector=Collector(0.01, 0.04, 1, copied_mib)),
    )
    used = replace(made.resources, memory_limit=MemoryLimit(**limit))
    trial = replace(made.trial, kind=kind, case_index=case_index, block=0, round=1)
    return replace(made, application=own, resources=used, trial=trial)


def test_a_window_of_few_cycles_does_not_show_that_a_process_limits_itself() -> None:
    """64 users whose requests take 1.2 s each are once in a window of 1.5 s: 42.6/s, not 53."""
    one = changed(record(0, WINDOW), users=64, alone_s=1.2045, rate=42.63, completed=64)
    one = changed(one, cpu_ms_per_request=1.38)
    for ratio, is_limit in ((0.8123, False), (1.0, True)):
        found = costs.estimate_from_record(changed(one, little_ratio=ratio), None)
        assert (found.of[LOOPS].serial_s is not None) is is_limit


def test_threads_that_hinder_each_other_do_not_count_as_the_cost_of_a_request() -> None:
    busy = {"rate": 33.0, "completed": 330, "cpu_ms_per_request": 53.0, "alone_s": 0.012}
    one = changed(record(0, WINDOW), **busy)
    one = replace(one, tasks=replace(one.tasks, alone_cpu_s=0.011))
    found = costs.estimate_from_record(one, 64).of[THREADS]
    assert 0.011 < found.cpu_s < 0.013
    assert found.serial_s == 0.012
    for other in (
        changed(one, alone_s=0.04),
        replace(one, tasks=replace(one.tasks, alone_cpu_s=None)),
    ):
        assert costs.estimate_from_record(other, 64).of[THREADS].cpu_s >= 0.053


def advised(*records: Record) -> Application:
    """Return an application whose one process had no cause, in the set-up of these records."""
    found = costs.estimate_from_record(record(0, WINDOW), 4)
    one = Application(("wsgi",), "app", found, 0.01, 0.01, 8, causes=(Cause("nothing"),))
    return application.add_setup(one, setup_of(PLAIN), CASES, records)


def test_what_collections_copy_with_preload_is_noted_and_is_no_harm_with_freeze() -> None:
    found = advised(record(0, WINDOW), record(1, LONG, 120.0), record(2, LONG, 0.1))
    assert [each.kind for each in found.preload_causes] == [PRELOAD_LOST]
    assert advised(record(0, WINDOW), record(1, LONG, 4.0)).preload_causes == ()
    assert advised(record(0, WINDOW), record(2, LONG, 120.0)).preload_causes == ()


def test_a_cause_that_only_the_chosen_set_up_has_is_told() -> None:
    limit = {"by": "ulimit -v", "limit_mib": 900.0, "used_mib": 890.0}
    found = advised(record(0, WINDOW, **limit))
    assert [each.kind for each in found.remaining] == [MEMORY_LIMIT]
    [text] = [each for each in found.why() if each.startswith("In the advised size: ")]
    assert "890 of the 900 MiB of ulimit -v" in text
    assert not [each for each in advised(record(0, WINDOW)).why() if "advised size:" in each]


def test_a_measured_remedy_without_a_gain_is_reported() -> None:
    vain = Gain("MALLOC_ARENA_MAX=2", 1.01, 0.95, 1.06)
    found = replace(advised(record(0, WINDOW)), gains={"arenas": vain})
    assert f"{vain.text}: this is no remedy here." in [*found.why()]
    explained = replace(found, causes=(Cause("arenas", 60_000.0),))
    assert f"{vain.text}: this is no remedy here." not in [*explained.why()]
    frees = Cause("collector", 0.4, 0.15, facts=Collector(0.4, 0.1, 9), gain=vain)
    refuted = replace(found, remaining=(frees,), gains={"collector": vain})
    assert not [each for each in refuted.why() if "advised size:" in each]
    assert f"{vain.text}: this is no remedy here." in [*refuted.why()]
    once = replace(found, gains={"arenas": replace(vain, low=None, high=None)})
    assert not [each for each in once.why() if "MALLOC" in each]


def test_a_cause_that_the_chosen_set_up_does_not_have_limits_it_no_more_but_errors_stay() -> None:
    limit = {"by": "ulimit -v", "limit_mib": 900.0, "used_mib": 890.0}
    causes = (
        Cause(REQUESTS_FAIL, 0.1, 0.0, facts=FailedRequests(9, 90, "KeyError: 7 (shop.py:3)")),
        Cause(GIL_SATURATED, 0.99, 0.9, gil_s=0.02),
    )
    failing, gil, *_ = replace(advised(record(0, WINDOW, **limit)), causes=causes).why()
    over = "It does not limit the advised size."
    assert "KeyError: 7 (shop.py:3)" in failing and over not in failing
    assert gil.endswith(over)
    since = Cause(WORKER_FAILS, 0.4, limit=1, facts=FailingSince(ONE, 0.4, None, None))
    failing, *_ = replace(advised(record(0, WINDOW, **limit)), causes=(since, causes[1])).why()
    assert "since a moment" in failing and over not in failing
    starts = Cause(IMPORT_STARTS, limit=4, module="process")
    _, also, *_ = replace(advised(record(0, WINDOW, **limit)), causes=(causes[1], starts)).why()
    assert "in each serving process" in also and over not in also
    line = HotLine("quote", "shop.py", 7, 0.5, "blocks the loop", "route", "an httpx client")
    created = Cause(NEW_OBJECTS, 0.5, 0.2, line=line)
    creates, *_ = replace(advised(record(0, WINDOW, **limit)), causes=(created, causes[1])).why()
    assert "an httpx client" in creates and over not in creates


@pytest.mark.parametrize(("rate", "is_shared"), [(84.0, True), (140.0, False)])
def test_what_several_processes_cannot_multiply_is_shared_by_them(
    rate: float, is_shared: bool
) -> None:
    waits = Cause(WAITS_ELSEWHERE, 12.0, 5.0, limit=1)
    known = replace(advised(record(0, WINDOW)), causes=(waits,), probe=record(0, WINDOW))
    found = [
        Evidence(Setup("gunicorn_gthread", THREADS, count, 2), {1: each})
        for count, each in ((2, 300.0), (16, rate), (8, 50.0))
    ]
    [cause] = application.add_shared(known, found).causes
    assert cause.facts == (SharedByProcesses(16, 1.05) if is_shared else None)
    said = diagnosis.sentence(cause, 64)
    assert ("16 processes carry 1.05 times as much as one" in said) == is_shared
    assert ("if each process has its own" in said) != is_shared
    assert diagnosis.is_per_process(cause) != is_shared


def test_responses_under_few_users_count_as_slow_if_many_users_had_none() -> None:
    setup = application.probe_setup("gunicorn_gthread", 64)
    cases = [case_of(setup, Case("advise", "app=shop:app"), users) for users in (64, 3)]
    many, few = (
        new_record(case, "run", case_index=index, round=ALONE, rate=rate)
        for index, (case, rate) in enumerate(zip(cases, (None, 1.5), strict=True))
    )
    few = replace(few, baseline=replace(few.baseline, alone_s=0.6))
    found = application.describe(("wsgi",), "app", (), cases, [many, few])
    assert (found.alone_s, found.response_s) == (0.6, 2.0)
    assert is_brief(found.response_s, Question()) and not is_brief(found.alone_s, Question())
    other = replace(many, case=replace(many.case, server="waitress"))  # it did not start
    assert application.describe(("wsgi",), "app", (), cases, [other, few]).response_s == 0.6
    alone = replace(few, trial=replace(few.trial, case_index=0), case=many.case)
    assert application.describe(("wsgi",), "app", (), cases, [alone]).response_s == 0.6
