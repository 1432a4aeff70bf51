"""A rate agrees with its response time, and is below the limits of workers, users and cores."""

from __future__ import annotations

import math

import pytest

from offload.engine.figures import Ceiling, ceilings, little_ratio, share_of_ceiling

POOL = {"workers": 4, "service_s": 0.05, "users": 25}
UNKNOWN = dict.fromkeys(["workers", "service_s", "users", "cores", "cpu_s"])


def test_a_closed_loop_that_agrees_with_itself_has_a_ratio_of_1() -> None:
    assert little_ratio(80, 0.3125, 25) == pytest.approx(1)


def test_a_response_time_that_misses_the_backlog_shows_in_the_ratio() -> None:
    assert little_ratio(80, 0.05, 25) == pytest.approx(0.16)


@pytest.mark.parametrize("known", [(None, 0.3, 25), (80, None, 25), (80, 0.3, None), (80, 0.3, 0)])
def test_a_ratio_of_what_is_not_known_is_not_known(known: tuple[float | None, ...]) -> None:
    assert little_ratio(*known) is None


def test_the_lowest_ceiling_is_first() -> None:
    expected = [Ceiling("pool", 80), Ceiling("users", 500), Ceiling("cpu", 2000)]
    assert expected == ceilings(**POOL, cores=4, cpu_s=0.002)


def test_cores_bound_a_task_that_computes() -> None:
    assert ceilings(**POOL, cores=1, cpu_s=0.05)[0] == Ceiling("cpu", 20)


def test_what_is_not_known_is_no_ceiling() -> None:
    assert ceilings(**UNKNOWN) == []
    assert ceilings(**{**UNKNOWN, "cores": 4, "cpu_s": 0.01}) == [Ceiling("cpu", 400)]


def test_a_cpu_time_of_0_is_no_ceiling() -> None:
    assert ceilings(cores=4, cpu_s=0.0) == []


def test_the_share_reached_is_that_of_the_lowest_ceiling() -> None:
    assert share_of_ceiling(79.5, ceilings(**POOL)) == pytest.approx(79.5 / 80)


@pytest.mark.parametrize(("rate", "known"), [(None, [Ceiling("pool", 80)]), (80, [])])
def test_without_rate_or_ceiling_no_share_is_known(rate: float | None, known: list) -> None:
    assert share_of_ceiling(rate, known) is None


@pytest.mark.parametrize("number", [-1, math.nan, math.inf])
def test_an_impossible_number_is_a_value_error(number: float) -> None:
    for impossible in (
        lambda: little_ratio(80, number, 25),
        lambda: ceilings(users=number),
        lambda: share_of_ceiling(number, []),
    ):
        with pytest.raises(ValueError, match="numbers of 0 or more"):
            impossible()
