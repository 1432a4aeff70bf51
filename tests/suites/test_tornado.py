"""The published tornado benchmark is compared with cases that do the same work."""

from __future__ import annotations

import pytest

from offload.engine import claim_evaluation
from offload.engine.decisions import NOT_COMPARABLE, UNRESOLVED
from offload.suites import tornado

CLAIMS = {claim.name: claim for claim in tornado.CLAIMS}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("processes, file", NOT_COMPARABLE),
        ("no help: file", NOT_COMPARABLE),
        ("processes, file, later", UNRESOLVED),
    ],
)
def test_only_a_file_that_was_written_is_compared(name: str, word: str) -> None:
    assert claim_evaluation.evaluate_claim("tornado", CLAIMS[name], None).verdict == word


@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        ("processes, simplehash, 254 users", 0.86),
        ("processes, simplehash, 512 users", 0.88),
        ("loop : processes, simplehash, 254 users", 1.57),
        ("loop : processes, simplehash, 512 users", 1.61),
    ],
)
def test_crowds_are_compared_in_every_pair(name: str, ratio: float) -> None:
    claim = CLAIMS[name]
    assert round(claim.ratio or 0, 2) == ratio
    assert claim.one.users == claim.other.users == int(name.split()[-2])
