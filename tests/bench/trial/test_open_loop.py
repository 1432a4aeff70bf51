"""An open loop at a share of the capacity follows the capacity of the moment."""

from __future__ import annotations

from contextlib import closing

import pytest

from offload.engine import builder
from offload.engine.record import LONG
from offload.engine.run import measure_open_loops
from offload.loads import Arrivals
from offload.suites import Case

POOL = Case("threads", "sleep_shortest_sync", users=4, settings={"workers": 1})  # waits for 2 ms


@pytest.mark.server
@pytest.mark.slow
def test_random_arrivals_differ_from_load_to_load_and_from_round_to_round() -> None:
    def offered(number: int, loads: int) -> list[int | None]:
        trial = builder.new_trial("test", kind=LONG, seed=1, round=number)
        records = measure_open_loops(POOL, [Arrivals(50.0, "poisson")] * loads, trial, None)
        return [record.result.offered for record in records]

    first, second = offered(1, 2)
    assert first != second
    assert offered(1, 1) == [first]  # a round can be repeated
    assert offered(2, 1) == [second]


@pytest.mark.server
def test_a_given_rate_stays_as_it_is_without_a_capacity() -> None:
    trial = builder.new_trial("test", kind=LONG, seed=1)
    [record] = measure_open_loops(POOL, [Arrivals(50.0)], trial, None)
    assert (record.problem, record.case.asked_rate) == (None, 50.0)


@pytest.mark.server
def test_a_load_has_its_record_before_the_next_one_and_the_others_can_be_left_out() -> None:
    trial, many = builder.new_trial("test", kind=LONG, seed=1), [Arrivals(50.0)] * 1000
    with closing(measure_open_loops(POOL, many, trial, None, duration_s=0.5)) as loads:
        assert next(loads).result.completed
