"""A majority holds when more than half of the claims it names have more, and says of which not."""

from __future__ import annotations

import importlib

import pytest

from offload.bench.claims import majorities
from offload.bench.claims.evaluate import ClaimVerdict
from offload.bench.stats.replication import DOES_NOT, HOLDS, IN_PART, NOT_COMPARABLE, UNRESOLVED
from offload.registry import catalog
from offload.suites import Majority

SUITES = [importlib.import_module(f"offload.suites.{name}") for name in catalog.suites()]
ALL = [one for suite in SUITES for one in getattr(suite, "MAJORITIES", ())]
MORE, LESS = (HOLDS, 1.5, 1.6), (DOES_NOT, 0.5, 0.6)
NONE, OPEN, OTHER = (DOES_NOT, 0.98, 1.02), (UNRESOLVED, 0.5, 3.0), (NOT_COMPARABLE, 1.5, 1.6)


def judged(*found: tuple[str, float, float]) -> ClaimVerdict:
    claims = [
        ClaimVerdict("a_suite", name, None, None, low, high, word, "why")
        for name, (word, low, high) in zip("abcde", found, strict=False)
    ]
    return majorities.evaluate_majority(
        "a_suite", Majority("most", "", "", "", tuple("abcde")), claims
    )


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ((MORE, MORE, LESS), HOLDS),
        ((MORE, (IN_PART, 1.1, 1.2), OPEN), HOLDS),
        ((MORE, LESS), DOES_NOT),
        ((MORE, NONE, LESS), DOES_NOT),
        ((MORE, OPEN, OPEN), UNRESOLVED),
        ((MORE, OTHER, OTHER), HOLDS),
        ((OTHER, OTHER), UNRESOLVED),
        ((), UNRESOLVED),
    ],
)
def test_more_than_half_decide(found: tuple[tuple[str, float, float], ...], word: str) -> None:
    assert judged(*found).verdict == word


def test_a_rate_that_the_load_tool_bound_decides_nothing() -> None:
    assert judged((UNRESOLVED, 1.5, 1.6)).verdict == UNRESOLVED


def test_those_that_speak_against_it_are_named() -> None:
    assert judged(MORE, MORE, MORE, LESS, OPEN).reason == (
        "more in 3 of 5 claims, no more in d, 1 not resolved"
    )


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_it_names_several_claims_of_its_suite(one: Majority) -> None:
    [suite] = [suite for suite in SUITES if one in getattr(suite, "MAJORITIES", ())]
    assert len(one.of) > 2
    assert {*one.of} <= {claim.name for claim in suite.CLAIMS}
