"""Whether an interval confirms a claim depends on the claim's own relation."""

from __future__ import annotations

import pytest

from offload.engine.decisions import (
    DOES_NOT,
    HOLDS,
    IN_PART,
    UNRESOLVED,
    classify_replication,
    explain_replication,
)


@pytest.mark.parametrize(
    ("claimed", "low", "high", "word"),
    [
        (10.0, 9.2, 9.5, HOLDS),  # within the slack
        (10.0, 12.0, 30.0, HOLDS),  # farther
        (10.0, 1.5, 2.0, IN_PART),
        (10.0, 0.9, 1.1, DOES_NOT),
        (10.0, 0.5, 0.6, DOES_NOT),
        (10.0, 0.5, 20.0, UNRESOLVED),
        (10.0, 0.6, 2.9, DOES_NOT),  # nothing that is nearer to 10 than to 1
        (10.0, 0.6, 3.5, UNRESOLVED),
        (0.1, 0.105, 0.11, HOLDS),
        (0.1, 0.01, 0.02, HOLDS),
        (0.1, 0.5, 0.6, IN_PART),
        (0.1, 2.0, 3.0, DOES_NOT),
        (1.08, 0.99, 1.01, HOLDS),  # that small a difference is within the slack
        (None, 1.5, 2.0, HOLDS),
        (None, 0.98, 1.02, DOES_NOT),
        (None, 0.8, 1.6, UNRESOLVED),
    ],
)
def test_a_claimed_difference_has_a_verdict(
    claimed: float | None, low: float, high: float, word: str
) -> None:
    assert classify_replication(claimed, False, low, high) == word


@pytest.mark.parametrize(
    ("claimed", "low", "high", "word"),
    [
        (1.0, 0.98, 1.02, HOLDS),
        (None, 0.95, 1.08, HOLDS),
        (0.88, 0.99, 1.01, HOLDS),  # it was said to be no difference, and is none
        (1.0, 1.2, 1.3, DOES_NOT),
        (1.0, 0.5, 0.6, DOES_NOT),
        (1.0, 0.5, 2.0, UNRESOLVED),
        (1.67, 2.0, 2.1, DOES_NOT),
    ],
)
def test_a_claim_of_no_difference_has_a_verdict(
    claimed: float | None, low: float, high: float, word: str
) -> None:
    assert classify_replication(claimed, True, low, high) == word


@pytest.mark.parametrize("low", [0.3, 0.9, 1.02, 2.0, 9.5])
@pytest.mark.parametrize("width", [1.01, 1.3, 5.0])
def test_exchanging_the_cases_changes_no_verdict(low: float, width: float) -> None:
    high = low * width
    assert classify_replication(3.0, False, low, high) == classify_replication(
        1 / 3, False, 1 / high, 1 / low
    )
    assert classify_replication(1.0, True, low, high) == classify_replication(
        1.0, True, 1 / high, 1 / low
    )


def test_every_verdict_has_a_reason_of_a_few_words() -> None:
    for word in (HOLDS, IN_PART, DOES_NOT, UNRESOLVED):
        for alike in (True, False):
            assert 2 <= len(explain_replication(word, 2.0, alike, 1.2, 1.4).split()) <= 6


def test_only_what_goes_beyond_the_slack_is_called_larger() -> None:
    assert explain_replication(HOLDS, 9.978, False, 9.98, 10.06) == "as published"
    assert explain_replication(HOLDS, 1.13, False, 1.81, 2.46) == "the difference is larger here"


def test_where_no_ratio_was_published_nothing_is_as_published() -> None:
    assert explain_replication(HOLDS, None, False, 3.95, 4.01) == "larger, as claimed"
