"""Every suite is consistent: its cases can be started, and its claims refer to them."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, replace
from types import ModuleType

import pytest

from offload import upstream
from offload.engine import server, workload
from offload.engine.record import dataclass_from
from offload.engine.workload import get
from offload.registry import catalog
from offload.suites import Case
from tests.installed import require

SUITES = [importlib.import_module(f"offload.suites.{name}") for name in catalog.suites()]
CASES = [pytest.param(case, id=case.id) for suite in SUITES for case in suite.CASES]
every = pytest.mark.parametrize("suite", SUITES, ids=list(catalog.suites()))


@pytest.mark.parametrize("case", CASES)
def test_a_case_can_be_started_and_kept(case: Case) -> None:
    words, _ = server.command(replace(case, python=None), 0)  # which may be one that is not here
    assert words[4:6] == [case.server, case.task]
    assert dataclass_from(Case, json.loads(json.dumps(asdict(case)))) == case


@every
def test_no_two_cases_are_one(suite: ModuleType) -> None:
    for cases in (suite.CASES, [case.quick() for case in suite.CASES]):
        assert len({case.key for case in cases}) == len(cases)


@every
def test_a_claim_is_about_two_cases_of_its_suite(suite: ModuleType) -> None:
    names = [claim.name for claim in getattr(suite, "CLAIMS", ())]
    assert len(set(names)) == len(names)
    for claim in getattr(suite, "CLAIMS", ()):
        assert claim.one in suite.CASES, claim.name
        assert claim.other in suite.CASES, claim.name
        assert claim.one.key != claim.other.key
        assert claim.ratio is None or 0 < claim.ratio < 1000
        assert claim.who
        assert claim.where
        assert claim.statement
        assert claim.conditions


@every
def test_an_availability_is_of_a_case_of_its_suite(suite: ModuleType) -> None:
    for one in getattr(suite, "AVAILABILITIES", ()):
        assert one.case in suite.CASES, one.name
        assert one.who
        assert one.where
        assert one.statement
        assert one.conditions


@every
def test_a_published_tool_is_a_driver(suite: ModuleType) -> None:
    assert getattr(suite, "TOOL", "siege") in catalog.drivers()


ASKED = [suite for suite in SUITES if any(case.request for case in suite.CASES)]


@pytest.mark.suites
@pytest.mark.timing  # several processes of Django have 10 s to start
@pytest.mark.parametrize("suite", ASKED, ids=lambda suite: suite.__name__)
def test_the_requests_of_a_claim_are_answered_with_the_same_content(suite: ModuleType) -> None:
    cases = [case.quick() for case in suite.CASES if case.python is None]
    for case in cases:
        require(case.server)
    contents = {}
    with upstream.hold() as held:
        for command in {case.command for case in cases}:
            alike = [case for case in cases if case.command == command]
            running = server.start(alike[0], held.upstream.environment())
            try:
                for case in alike:
                    contents[case.key] = suite.extract(
                        get(workload.url(running.url, case.request), case.request)
                    )
            finally:
                server.stop(running)
    here = [
        claim
        for claim in getattr(suite, "CLAIMS", ())
        if claim.one.python is claim.other.python is None
    ]
    for claim in here:
        one, other = (contents[case.quick().key] for case in (claim.one, claim.other))
        assert (one == other) is (claim.work is None), claim.name
