"""The rate of a window is not quantised by counting, also if a server is deterministic."""

from __future__ import annotations

import heapq
import random

import pytest

from offload.loads import quantum_of_count
from offload.loads.engine.figures import (
    between_completions,
    in_flight,
    quantum_of_residence,
    residence_spread,
)

POOLS = [(4, 0.28, 25), (4, 0.28, 24), (1, 0.28, 25), (4, 0.05, 25), (10, 0.1, 64)]
Requests = tuple[list[float], list[float]]


def pool(workers: int, slot: float, users: int, length: float) -> Requests:
    """Simulate a closed loop on a first-come queue whose every request takes `slot` s."""
    free = [0.0] * workers
    asked = [(0.0, user) for user in range(users)]
    began, ended = [], []
    while asked[0][0] < length:
        now, user = heapq.heappop(asked)
        end = max(now, heapq.heappop(free)) + slot
        heapq.heappush(free, end)
        heapq.heappush(asked, (end, user))
        began.append(now)
        ended.append(end)
    return began, ended


def errors(
    workers: int, slot: float, users: int, seen: Requests, length: float
) -> tuple[float, float]:
    """Return the worst relative error of spreading and of counting, over windows anywhere."""
    truth, warm = workers / slot, 2 * users * slot / workers
    spread, count = [], []
    for _ in range(100):
        start = warm + random.Random(len(count)).uniform(0, 5)
        end = start + length
        spread.append(residence_spread(*seen, start, end))
        count.append(sum(start <= e <= end for e in seen[1]) / length)
    return tuple(max(abs((r or 0) / truth - 1) for r in rates) for rates in (spread, count))  # type: ignore[return-value]


@pytest.mark.parametrize("slowed", [1.0, 0.7, 1.4])
def test_all_users_of_a_closed_loop_are_in_flight_also_while_the_server_drifts(
    slowed: float,
) -> None:
    began, ended = pool(4, 0.28, 25, 40.0)
    began, ended = ([t if t < 20 else 20 + slowed * (t - 20) for t in ts] for ts in (began, ended))
    start, end = 20.5, 24.0  # two cycles
    assert in_flight(began, ended, start, end) == pytest.approx(25)
    own = [(b, e) for b, e in zip(began, ended, strict=True) if start <= e <= end]
    mean = sum(e - b for b, e in own) / len(own)
    rate = residence_spread(began, ended, start, end)
    assert (abs(rate * mean / 25 - 1) > 0.02) == (slowed != 1.0)  # type: ignore[operator]


def test_users_that_pause_are_not_in_flight() -> None:
    assert in_flight([0, 2, 4], [1, 3, 5], 0, 6) == pytest.approx(0.5)
    assert in_flight([0, 2, 4], [1, 3, 5], 2.5, 4.5) == pytest.approx(0.5)
    assert in_flight([0], [1], 3, 3) is None


@pytest.mark.parametrize(("workers", "slot", "users"), POOLS)
def test_spreading_is_exact_on_a_deterministic_server(
    workers: int, slot: float, users: int
) -> None:
    seen = pool(workers, slot, users, 40.0)
    length = max(1.5, 2 * users * slot / workers)
    assert errors(workers, slot, users, seen, length)[0] < 0.001


def test_counting_is_off_by_several_percent_where_spreading_is_not() -> None:
    spread, count = errors(4, 0.28, 25, pool(4, 0.28, 25, 40.0), 3.5)
    assert (spread < 0.001, count > 0.03) == (True, True)


def test_a_steady_flow_has_no_quantum_and_a_batch_has_its_share() -> None:
    seen = pool(4, 0.28, 25, 40.0)
    assert quantum_of_residence(*seen, 5.0, 8.5) < 0.001
    bursts = (
        [float(n) for n in range(20) for _ in range(10)],
        [n + 0.01 for n in range(20) for _ in range(10)],
    )
    assert 0.0 < quantum_of_residence(*bursts, 5.5, 9.505) < 0.26
    assert quantum_of_count(25, 50) == 0.5


def test_a_request_counts_by_the_part_of_it_in_the_window() -> None:
    assert residence_spread([0.0, 1.0, 3.0], [2.0, 1.5, 4.0], 1.0, 3.0) == pytest.approx(0.75)
    assert residence_spread([0.0], [10.0], 1.0, 3.0) == pytest.approx(0.1)
    assert residence_spread([], [], 1.0, 1.0) is None
    assert residence_spread([2.0], [2.0], 1.0, 3.0) == 0.5


def test_even_completions_have_their_rate_whatever_the_window_cuts_off() -> None:
    ended = [0.28 * n for n in range(1, 100)]
    rate, quantum = between_completions(ended, 1.0, 15.0)
    assert rate == pytest.approx(1 / 0.28)
    assert quantum == pytest.approx(0.0, abs=1e-9)
    assert between_completions([1.0], 0.0, 2.0) == (None, 1.0)


def test_completions_in_batches_have_a_quantum_of_about_one_batch() -> None:
    ended = [float(n // 5) for n in range(100)]
    assert between_completions(ended, 0.5, 15.5)[1] == pytest.approx(1 / 14, rel=0.3)
