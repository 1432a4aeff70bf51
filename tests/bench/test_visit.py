"""A visit gives a record whatever happens, with what was measured and what was not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.bench.records.record import LONG, VISIT
from offload.bench.telemetry.host import environment
from offload.bench.telemetry.sampler import ResourceSampler
from offload.bench.trial import builder
from offload.bench.trial.trial import visit
from offload.suites import Case, tornado
from tests.installed import OWN, POOLS, one_of_each_kind, require
from tests.records import value_of

pytestmark = pytest.mark.server


def case_of(name: str, task: str, **more: Any) -> Case:
    """Name a case of two workers, which start sooner than more; skip what cannot run here."""
    require(name)
    return Case(name, task, settings={"workers": 2} if name in POOLS else {}, **more)


def visited(case: Case, kind: str = LONG) -> tuple[Any, list[str]]:
    phases: list[str] = []
    made = builder.trial("run", kind=kind)
    record = visit(case, "builtin", made, None, lambda name, seconds: phases.append(name))
    return record, phases


@pytest.mark.parametrize("name", one_of_each_kind(OWN))
def test_a_visit_fills_the_record(name: str) -> None:
    record, phases = visited(case_of(name, "noop_sync", users=2, seconds=0.4))
    assert phases == ["start", "prime", "warm", "load", "stop"]
    assert record.problem is None
    unknown = [
        field
        for field in ("rate", "response_p99_s", "memory_pss_mib", "memory_rss_mib", "server_cpu_s")
        if not value_of(record, field)
    ]
    assert unknown == []
    assert 0.1 < record.result.little_ratio < 2  # 1 in a load that is not so short
    assert set(record.trial.phases) == set(phases)


@pytest.mark.parametrize("name", one_of_each_kind(OWN))
def test_a_visit_in_a_round_measures_a_window_within_one_load(name: str) -> None:
    record, phases = visited(case_of(name, "sleep_short_sync", users=2), VISIT)
    assert phases == ["start", "prime", "load", "stop"]
    assert (record.problem, record.result.rate_how) == (None, "residence-spread")
    assert record.result.completed >= 20
    assert 1.5 <= record.result.window_ended - record.result.window_began < 4.5
    assert record.result.response.p50_s <= record.result.response.p99_s


def test_pss_counts_shared_pages_once() -> None:
    record, _ = visited(case_of("processes", "sleep_short_sync", users=2, seconds=0.3))
    memory = record.resources.memory
    assert memory.uss_mib < memory.pss_mib < memory.rss_mib


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("def f():\n    raise ValueError('no')\n", "answered 500: .*ValueError: no"),
        ("import no_such_module\ndef f(): ...\n", "no_such_module"),
        ("import os\ndef f():\n    os._exit(3)\n", "did not answer|answered 500"),
    ],
)
@pytest.mark.parametrize("name", one_of_each_kind(OWN))
def test_a_visit_that_fails_is_a_record_with_a_problem(
    name: str, body: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(body)
    record, _ = visited(case_of(name, f"{tmp_path}/bad.py:f", users=1, seconds=0.2))
    assert re.search(reason, str(record.problem))
    assert (record.result.rate, record.result.completed) == (None, None)


def test_the_bench_has_no_child_left_after_a_visit() -> None:
    visited(case_of("processes", "sleep_short_sync", users=1, seconds=0.2))
    ours = [c for c in psutil.Process().children(recursive=True) if c.status() != "zombie"]
    assert [child for child in ours if "servers" in child.cmdline()] == []


def test_a_watch_of_nothing_knows_nothing_of_it() -> None:
    with ResourceSampler(None) as watch:
        pass
    used = watch.between(None, None)
    assert (used.memory.pss_mib, used.cpu_s) == (None, None)


def test_the_environment_is_known_as_far_as_the_machine_tells() -> None:
    facts = environment()
    assert facts["cores"]
    assert facts["packages"]["tornado"]  # type: ignore[index]


def test_quick_cases_are_the_fourteen_with_fewer_users_where_each_waits_for_all() -> None:
    quick = [case.quick() for case in tornado.PUBLISHED]
    assert [case.users for case in quick] == [2, 2, 8, 8, *[25] * 8, 8, 8]
    assert {case.seconds for case in quick} == {6.0}
    assert tornado.CASES[0].seconds >= 60
