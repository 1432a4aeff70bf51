"""The rate of workers that share cores is between that of calls in step and of unqueued calls."""

from __future__ import annotations

import pytest

from offload.bench.advice.prediction.shared_cores import IN_STEP_PREFORK, in_step_rate, shared_rate


def test_up_to_one_worker_per_core_the_rate_is_exact() -> None:
    assert shared_rate(1, 2, 0.1, 0.1) == pytest.approx(5)
    assert shared_rate(2, 2, 0.1, 0.1) == pytest.approx(10)
    assert shared_rate(50, 2, 0.0, 0.1) == pytest.approx(20)
    assert shared_rate(7, 2, 0.1, 0.0) == pytest.approx(70)


def test_the_calls_of_a_pool_run_half_in_step() -> None:
    assert shared_rate(2, 2, 0.1, 0.1) == in_step_rate(2, 2, 0.1, 0.1) == pytest.approx(10)
    # In step, 20 calls wait for 100 ms, and then share two cores for 100 ms.
    assert in_step_rate(20, 2, 0.1, 0.01) == pytest.approx(100)
    assert shared_rate(20, 2, 0.1, 0.01) == pytest.approx((100 * 20 / 0.11) ** 0.5)
    prefork = shared_rate(20, 2, 0.1, 0.01, IN_STEP_PREFORK)
    assert prefork == pytest.approx(100**0.25 * (20 / 0.11) ** 0.75)
    rates = [shared_rate(n, 2, 0.9, 0.1) for n in range(1, 65)]
    assert rates == sorted(rates)
    assert 17 < rates[-1] <= 20


def test_calls_that_compute_in_short_bursts_do_not_run_in_step() -> None:
    one, several = (shared_rate(25, 2, 0.1, 0.004, bursts=bursts) for bursts in (1, 5))
    assert one < several < 25 / 0.104
