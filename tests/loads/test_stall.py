"""A load stops if requests no longer succeed, or ever fewer; not if they are only slow."""

from __future__ import annotations

from collections.abc import Iterable

from offload.engine import workload
from offload.loads.engine.processes import StallDetector


def ends(counts: Iterable[tuple[float, int]], patience: float = 10.0) -> tuple[float, str] | None:
    """Return when and why a load stops, from the number of successes at several times."""
    detector = StallDetector(patience, 0.0)
    for now, count in counts:
        if (problem := detector.update(count, now)) is not None:
            return now, problem
    return None


def every(seconds: float, successes: Iterable[int]) -> list[tuple[float, int]]:
    """Return the sums of the successes in consecutive parts of a load."""
    total, found = 0, []
    for number, count in enumerate(successes, start=1):
        total += count
        found.append((number * seconds, total))
    return found


def test_a_load_without_a_success_ends_after_its_patience() -> None:
    assert ends(every(0.5, [0] * 100)) == (10.0, "no request succeeded for 10 s")
    assert ends(every(0.5, [0] * 19)) is None


def test_a_load_ends_if_successes_stop() -> None:
    assert ends(every(0.5, [5, 5, *[0] * 40])) == (
        11.0,
        "after 10 successes no request succeeded for 10 s",
    )


def test_a_load_ends_if_ever_fewer_requests_succeed() -> None:
    found = ends(every(0.5, [15] * 4 + [7, 7, 8, 7] + [1, 2, 1, 1, 0]))
    assert found == (6.0, "ever fewer requests succeeded: 60, 29, 5 in 2 s each")


def test_a_short_disturbance_does_not_end_a_load() -> None:
    assert ends(every(0.5, ([15] * 4 + [2] * 4) * 5)) is None


def test_a_fall_of_few_requests_is_chance() -> None:
    assert ends(every(0.5, [5, 5, 5, 4] + [0, 1, 0, 1] * 4)) is None


def test_users_that_respond_in_bursts_do_not_end_a_load() -> None:
    bursts = [25 if number % 5 == 0 else 0 for number in range(1, 61)]
    assert ends(every(1.0, bursts)) is None


def test_the_patience_depends_on_the_time_of_a_request_and_on_the_users() -> None:
    assert workload.patience_s(64, 0.01) == 10.0
    assert workload.patience_s(25, 1.0) == 37.5  # threads may share the GIL
    assert workload.patience_s(64, 2.0) == 45.0
    assert workload.patience_s(2, 29.0) > 40.0  # one response takes 29 s
    assert workload.patience_s(64, 2.0, is_probe=True) == 10.0
    assert workload.patience_s(64, 6.0, is_probe=True) == 18.0
