"""The interval of a share by batch means covers it, also if samples are correlated."""

from __future__ import annotations

import random

import pytest

from offload.engine.gil_sampler import share_interval, standard_error


def chain(rng: random.Random, length: int, stay: float) -> list[int]:
    """A coin that is turned with probability 1 - stay at each step: its share is 0.5."""
    state, states = rng.random() < 0.5, []
    for _ in range(length):
        state ^= rng.random() >= stay
        states.append(int(state))
    return states


@pytest.mark.parametrize("stay", [0.5, 0.9, 0.98])
def test_the_interval_holds_the_share_in_most_runs(stay: float) -> None:
    rng = random.Random(1)
    ends = [share_interval(chain(rng, 1500, stay))[1:] for _ in range(100)]
    assert sum(low <= 0.5 <= high for low, high in ends) >= 90


def test_samples_that_do_not_resemble_each_other_have_the_binomial_error() -> None:
    values = chain(random.Random(2), 4096, 0.5)
    assert standard_error(values) == pytest.approx((0.25 / 4096) ** 0.5, rel=0.6)


@pytest.mark.parametrize("value", [0, 1])
def test_a_share_without_exception_is_not_certain(value: int) -> None:
    share, low, high = share_interval([value] * 100)
    assert share == value
    assert high - low == pytest.approx(3.84 / 103.84, rel=0.01)


def test_one_sample_is_imprecise_and_none_is_unknown() -> None:
    assert share_interval([1])[1] < 0.3
    with pytest.raises(ValueError, match="at least one sample"):
        share_interval([])
