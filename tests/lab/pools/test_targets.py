"""Each target passes, fails or stays undecided by its interval."""

from __future__ import annotations

import pytest

from lab.pools import targets
from lab.pools.run import Line

CHAOS = {
    "kind": "chaos",
    "pool": "PipePool",
    "idempotent": False,
    "calm": [100.0, 100.0],
    "calm_failed": 0,
    "rates": [90.0, 91.0, 89.0],
    "done": 270,
    "failed": 0,
    "held": 5,
    "kills": 3,
    "restarts": 3,
}


def slices(pool: str, times: list[float]) -> list[Line]:
    """Return one slice per round, faster than the 100 us of the reference by these factors."""
    cell = {"kind": "slice", "pool": pool, "size": "no-op", "concurrency": 1}
    return [{**cell, "round": n, "rate": x, "p50_us": 100 / x} for n, x in enumerate(times)]


@pytest.mark.parametrize(
    ("times", "passed"), [([6, 6.1, 5.9], True), ([3, 3.1, 2.9], False), ([3, 5, 7], None)]
)
def test_a_target_is_met_where_its_whole_interval_is(times: list[float], passed: object) -> None:
    lines = [*slices("process", [1, 1, 1]), *slices("PipePool", times)]
    found = targets.check_targets(lines, [], True)
    assert (found[0].name, found[0].passed) == ("PipePool, no-op, 1 at once", passed)
    others = {(result.measured, result.passed) for result in found[1:]}
    assert (len(found), others) == (len(targets.TARGETS) + 3, {("not measured", None)})


def test_a_mixture_is_compared_round_by_round() -> None:
    p99 = {"process": [50e3, 80e3], "PipePool": [25e3, 40e3]}
    lines = [
        {"kind": "mixture", "pool": pool, "round": n, "p99_us": us}
        for pool, each in p99.items()
        for n, us in enumerate(each)
    ]
    [found] = [c for c in targets.check_targets(lines, [], True) if c.measured != "not measured"]
    assert (found.measured, found.passed) == ("2.00 (2.00 to 2.00)", True)


@pytest.mark.parametrize(
    ("idempotent", "held", "passed"), [(True, 5, False), (False, 5, True), (False, 1, False)]
)
def test_chaos_may_lose_the_tasks_of_killed_workers_unless_they_are_retried(
    idempotent: bool, held: int, passed: bool
) -> None:
    chaos = {**CHAOS, "failed": 2, "held": held, "idempotent": idempotent}
    found = targets.check_targets([chaos], [], True)
    lost, again, kept = found[-5:-2]  # the last two are of servers
    assert (lost.measured, lost.passed) == ("2 of 270 tasks failed, 0 before the kills", passed)
    assert (again.passed, kept.passed) == (True, True)


def test_a_task_that_failed_before_chaos_misses_its_target() -> None:
    lost = targets.check_targets([{**CHAOS, "calm_failed": 1}], [], True)[-5]
    assert (lost.measured, lost.passed) == ("0 of 270 tasks failed, 1 before the kills", False)


def test_a_second_in_which_nothing_ended_counts_against_the_chaos_test() -> None:
    kept = targets.check_targets([{**CHAOS, "rates": [100.0] * 9 + [0.0]}], [], True)[-3]
    assert (kept.measured[:4], kept.passed) == ("0.90", None)


def test_a_target_is_lower_where_workers_do_not_poll() -> None:
    lines = [*slices("process", [1, 1, 1]), *slices("PipePool", [4, 4.1, 3.9])]
    assert targets.check_targets(lines, [], False)[0].passed is True
