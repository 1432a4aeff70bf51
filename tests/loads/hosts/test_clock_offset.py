"""The offset of a host's clock is within its bound, however the way there and back differ."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.loads.engine.figures import REFERENCE, Clock
from offload.loads.hosts import remote_host
from offload.loads.hosts.remote_host import ClockOffset, Exchange

ROUNDING = 1e-9  # s, of the sum of times up to 1e6 s
delays = st.floats(1e-6, 2.0)
offsets = st.floats(-1e5, 1e5)


def exchange(at: float, ahead: float, there: float, host: float, back: float) -> Exchange:
    """Return the time stamps of a round trip whose delays are known."""
    received = at + there + ahead
    return Exchange(at, received, received + host, at + there + host + back)


@given(offsets, st.lists(st.tuples(delays, delays, delays), min_size=1, max_size=30))
def test_the_true_offset_is_within_the_bound(
    ahead: float, trips: list[tuple[float, float, float]]
) -> None:
    at = 1000.0
    found = remote_host.estimate_offset(exchange(at, ahead, *trip) for trip in trips)
    assert abs(found.ahead_s - ahead) <= found.bound_s + ROUNDING
    shortest = min(there + back for there, _, back in trips)
    assert found.bound_s == pytest.approx(shortest / 2, abs=ROUNDING)


def test_the_worst_case_reaches_the_bound() -> None:
    found = remote_host.estimate_offset([exchange(10.0, 0.3, there=0.08, host=0.001, back=0.0)])
    assert found.ahead_s - 0.3 == pytest.approx(0.04)
    assert found.bound_s == pytest.approx(0.04)


def test_queues_in_one_direction_do_not_move_the_estimate_of_many_exchanges() -> None:
    generator = random.Random(7)
    trips = [(0.0002 + generator.expovariate(20), 0.0, 0.0002) for _ in range(200)]
    found = remote_host.estimate_offset(exchange(5.0, 0.3, *trip) for trip in trips)
    assert abs(found.ahead_s - 0.3) <= found.bound_s < 0.01


def test_a_clock_that_drifts_is_interpolated() -> None:
    before, after = ClockOffset(0.3, 1e-4, at=100.0), ClockOffset(0.36, 1e-4, at=160.0)
    clock = remote_host.clock_between(before, after)
    assert clock.own(130.0) == pytest.approx(130.33)
    assert clock.reference(clock.own(130.0)) == pytest.approx(130.0)
    assert clock.own(100.0) == pytest.approx(100.3)


@given(offsets, st.floats(-1e-3, 1e-3), st.floats(0, 1e6), st.floats(0, 1e6))
def test_conversions_are_inverse(ahead: float, drift: float, at: float, time: float) -> None:
    clock = Clock(ahead, drift, at)
    assert clock.reference(clock.own(time)) == pytest.approx(time, abs=1e-6)


@given(st.floats(0, 1e9))
def test_the_reference_clock_returns_the_same_number(time: float) -> None:
    assert REFERENCE.own(time) == time == REFERENCE.reference(time)


def test_without_a_second_measurement_the_first_offset_holds() -> None:
    before = ClockOffset(-2.5, 1e-4, at=100.0)
    assert remote_host.clock_between(before, None).own(500.0) == 497.5


@pytest.mark.parametrize(
    ("change", "expected"), [(0.0, False), (0.0003, False), (0.3, True), (-0.3, True)]
)
def test_a_step_of_a_clock_is_detected(change: float, expected: bool) -> None:
    before, after = ClockOffset(0.3, 1e-4, 100.0), ClockOffset(0.3 + change, 1e-4, 110.0)
    assert remote_host.has_jumped(before, after) is expected
