"""The rate of coroutines on event loops is between unqueued requests and requests in step."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from offload.bench.advice.prediction.event_loops import LEAST_IN_STEP, EventLoops

ONE = EventLoops(count=1, cores=2.0, awaited_s=0.1, on_loop_s=0.005, cpu_s=0.005)


def test_one_loop_runs_its_requests_as_the_probe_did() -> None:
    assert ONE.rate(25, in_step=1.0) == pytest.approx(25 / (0.1 + 25 * 0.005))
    assert ONE.rate(25, in_step=0.0) == pytest.approx(1 / 0.005)
    assert ONE.rate(10, in_step=0.0) == pytest.approx(10 / 0.105)
    assert ONE.rate(1, in_step=1.0) == ONE.rate(1, in_step=0.0) == pytest.approx(1 / 0.105)


@pytest.mark.parametrize("in_step", [0.0, 0.3, 1.0])
def test_the_probe_shows_how_much_requests_run_in_step(in_step: float) -> None:
    found = ONE.in_step_at(25, ONE.rate(25, in_step))
    assert found == pytest.approx(in_step, abs=0.02)  # the wait in step is 0.8 of the duration


def test_a_short_wait_in_step_is_assumed_because_it_cannot_be_measured() -> None:
    short = replace(ONE, on_loop_s=0.0001)  # in step, 24 x 0.1 ms are added to 100 ms
    assert short.in_step_at(25, short.rate(25, 0.0)) == pytest.approx(0.95, abs=0.01)
    blocking = replace(ONE, awaited_s=0.0)
    assert blocking.in_step_at(25, blocking.rate(25, 0.0)) == 1.0
    assert replace(blocking, on_loop_s=0.0).in_step_at(25, 100.0) == 1.0


def test_a_small_change_of_the_time_on_the_loop_is_one_of_the_rate() -> None:
    """25 requests that are not in step, and occupy the loop for 0.02 to 1 ms."""
    times = [0.00002 * 1.01**step for step in range(400)]
    loops = [replace(ONE, awaited_s=0.02, on_loop_s=time) for time in times]
    shares = [each.in_step_at(25, each.rate(25, 0.0)) for each in loops]
    loaded = [replace(each, on_loop_s=each.on_loop_s + 0.0005) for each in loops]
    rates = [each.rate(25, share) for each, share in zip(loaded, shares, strict=True)]
    assert all(abs(b / a - 1) < 0.03 for a, b in pairwise(rates))


def test_one_loop_is_slower_on_less_than_a_core() -> None:
    half = replace(ONE, cores=0.5, awaited_s=0.0)
    assert half.rate(25, 1.0) == pytest.approx(1 / 0.01)
    assert replace(half, cpu_s=0.0).rate(25, 1.0) == pytest.approx(1 / 0.005)  # it only blocks


def test_the_wait_in_step_is_divided_by_the_loops_up_to_four() -> None:
    """The cores are saturated: 25 requests of 10 ms on 2 cores take longer than they await."""
    busy = replace(ONE, on_loop_s=0.01, cpu_s=0.01)
    for count, share in ((2, 1 / 2), (3, 1 / 3), (4, LEAST_IN_STEP), (8, LEAST_IN_STEP)):
        loops = replace(busy, count=count)
        assert 25 / loops.rate(25, 1.0) == pytest.approx(0.125 + share * 0.1)


def test_idle_loops_hardly_run_in_step() -> None:
    """The loops are busy for 0.8 of the time: 16 requests of 5 ms on 2 cores in 50 ms."""
    loops = EventLoops(count=2, cores=2.0, awaited_s=0.045, on_loop_s=0.005, cpu_s=0.005)
    in_step_s = 0.045 + 16 * 0.0025
    expected_s = 0.05 + 0.8**4 / 2 * (in_step_s - 0.05)
    assert 16 / loops.rate(16, 1.0) == pytest.approx(expected_s)


def test_loops_that_are_blocked_use_no_cores() -> None:
    blocking = EventLoops(count=8, cores=2.0, awaited_s=0.0, on_loop_s=0.02, cpu_s=0.0001)
    assert blocking.rate(25, 1.0) == pytest.approx(8 / 0.02)
