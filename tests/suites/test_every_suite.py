"""Every suite is data that holds together: its cases can be started, its claims are about them."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict
from types import ModuleType

import pytest

import catalog
from bench import server
from suites import Case, from_values
from tests.installed import MISSING

SUITES = [importlib.import_module(f"suites.{name}") for name in catalog.suites()]
CASES = [pytest.param(case, id=case.name) for suite in SUITES for case in suite.CASES]
every = pytest.mark.parametrize("suite", SUITES, ids=list(catalog.suites()))


@pytest.mark.parametrize("case", CASES)
def test_a_case_can_be_started_and_kept(case: Case) -> None:
    words, _ = server.command(case, 0)
    assert words[3:5] == [case.server, case.task]
    assert from_values(json.loads(json.dumps(asdict(case)))) == case


@every
def test_no_two_cases_are_one(suite: ModuleType) -> None:
    for cases in (suite.CASES, [case.quick() for case in suite.CASES]):
        assert len({case.key for case in cases}) == len(cases)


@every
def test_a_claim_is_about_two_cases_of_its_suite(suite: ModuleType) -> None:
    names = [claim.name for claim in suite.CLAIMS]
    assert len(set(names)) == len(names)
    for claim in suite.CLAIMS:
        assert claim.one in suite.CASES, claim.name
        assert claim.other in suite.CASES, claim.name
        assert claim.one.key != claim.other.key
        assert claim.ratio is None or 0 < claim.ratio < 1000
        assert claim.who
        assert claim.where
        assert claim.says


@every
def test_a_published_tool_is_a_driver(suite: ModuleType) -> None:
    assert getattr(suite, "TOOL", "siege") in catalog.drivers()


@pytest.mark.parametrize("case", [c for c in CASES if c.values[0].request])
def test_every_request_of_a_suite_is_answered(case: Case) -> None:
    from bench.prime import get

    if missing := MISSING[case.server]:
        pytest.skip(f"{case.server} needs {' and '.join(missing)}: make suites")
    quick = case.quick()
    running = server.start(quick, {})
    try:
        assert get(running.url, quick.request)
    finally:
        server.stop(running)
