"""The candidates are the best predictions, and as many as the budget has time for."""

from __future__ import annotations

from offload.bench.advice import candidates
from offload.suites import Case
from tests.bench.advice.probes import coroutine, model, probe

PYTHON = model(probe(wait_s=0.0, cpu_s=0.05, hold=1.0))
MIXED = model(probe(wait_s=0.004, cpu_s=0.004, hold=0.5))
SLEEP = model(probe(wait_s=0.2, cpu_s=0.0005, hold=0.002))
PLENTY = 300.0  # s


def names(found: list[candidates.Prediction]) -> list[tuple[str, int]]:
    return [(each.strategy, each.workers) for each in found]


def test_the_best_strategy_is_measured_with_the_next_strategies_and_other_sizes() -> None:
    found = names(candidates.select(PYTHON, PLENTY))
    assert found[0] == ("prefork", 2)
    # one process has half the rate
    assert found[1:] == [("pipes", 2), ("processes", 2), ("prefork", 4)]


def test_the_best_of_the_next_smaller_sizes_are_measured() -> None:
    found = candidates.select(MIXED, PLENTY)
    assert len(found) == candidates.MOST
    *strategies, one, other = found
    assert len({each.strategy for each in strategies}) == 3
    assert one.rate >= other.rate
    sizes = {each.strategy: each.workers for each in strategies}
    assert {one.workers, other.workers} == {sizes[one.strategy] // 2, sizes[other.strategy] // 2}


def test_a_strategy_far_from_the_best_is_not_measured() -> None:
    assert "threads" not in {name for name, _ in names(candidates.select(PYTHON, PLENTY))}
    assert "loop" not in {name for name, _ in names(candidates.select(SLEEP, PLENTY))}


def test_at_least_two_candidates_are_measured_however_short_the_budget() -> None:
    found = candidates.select(PYTHON, 1.0)
    assert (len(found), found[0].strategy) == (2, "prefork")


def test_the_loop_has_no_size() -> None:
    found = names(candidates.select(model(coroutine(0.2, 0.0005, 2), users=2), PLENTY))
    assert ("loop", 1) in found, "others are faster by less than 3 %"


def test_users_saturate_all_workers_and_no_more() -> None:
    found = candidates.select(PYTHON, PLENTY)
    assert candidates.users(PYTHON, found) == 8
    assert candidates.users(model(PYTHON.probe, users=3), found) == 3
    assert candidates.users(SLEEP, candidates.select(SLEEP, PLENTY)) == 25
    awaits = model(coroutine(0.2, 0.0005, 25))
    assert candidates.users(awaits, [awaits.predict("loop", 1)]) == 25


def test_the_plan_is_one_block_that_compares_all_with_the_first() -> None:
    found = candidates.select(PYTHON, PLENTY)
    planned = candidates.plan(PYTHON, Case("threads", "quote", path="/shop"), found, 80.0)
    [block] = planned.blocks
    assert block.cases == (0, 1, 2, 3)
    assert block.pairs == ((0, 1), (0, 2), (0, 3))
    assert (planned.suite, planned.budget_s, planned.quick) == ("advise", 80.0, True)
    first = planned.cases[0]
    assert (first.server, first.settings, first.path) == ("prefork", {"processes": 2}, "/shop")
    by_server = {case.server: case.settings for case in planned.cases[1:]}
    assert by_server["pipes"] == {"workers": 2}
