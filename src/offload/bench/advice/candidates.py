"""The candidates: the strategies and sizes that are worth measuring, by the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from offload.bench.advice import strategies
from offload.bench.advice.model import Model, Prediction
from offload.bench.planning import plan as plans
from offload.bench.planning.blocks import Block
from offload.bench.planning.plan import Plan
from offload.suites import Case

# Minimum share of the best predicted rate. The best strategy was below 0.85 of it in 2 of 152
# answers about short functions, and never below 0.75.
WORTH_MEASURING = 0.75
FEWEST_ROUNDS = 3  # that must fit into the budget, unless only two candidates are left
# Fixed parts, in s, of the time of a round and of each of its windows; the rest depends on the rate
FIXED_ROUND_S, FIXED_WINDOW_S = 3.0, 1.0
SUITE = "advise"


def candidates(model: Model, budget_s: float) -> list[Prediction]:
    """Return the best strategy at its best size, then others that may be as good.

    The others are at most two strategies whose predicted rates are near the best one, or the next
    best strategy if there is none, and the next smaller and larger sizes of the best strategy. The
    list is shortened, to two candidates at least, until FEWEST_ROUNDS rounds fit into `budget_s`.
    At least one strategy must fit into the memory limit of the model.
    """
    best, *others = model.ranking()
    near = [each for each in others if each.rate >= WORTH_MEASURING * best.rate][:2] or others[:1]
    sizes = model.sizes(best.strategy)
    place = sizes.index(best.workers)
    neighbours = [sizes[n] for n in (place - 1, place + 1) if 0 <= n < len(sizes)]
    other_sizes = [model.predict(best.strategy, count) for count in neighbours]
    found = [best, *near, *other_sizes]
    while len(found) > 2 and FEWEST_ROUNDS * round_s(model, found) > budget_s:
        found.pop()
    return found


def users(model: Model, predictions: Sequence[Prediction]) -> int:
    """Return how many users saturate all candidates, at most the users of the model."""
    workers = max(each.workers for each in predictions)
    return strategies.saturating_users(model.users, workers, model.probe.is_coroutine)


def round_s(model: Model, predictions: Sequence[Prediction]) -> float:
    """Return the expected time of a round in s: each case has one window.

    A window starts and ends with a request of each user, which takes the time of two requests.
    """
    count = users(model, predictions)
    return FIXED_ROUND_S + sum(FIXED_WINDOW_S + 2 * count / each.rate for each in predictions)


def plan(model: Model, case: Case, found: Sequence[Prediction], budget_s: float) -> Plan:
    """Return the plan of one block, whose cases are compared with the first one."""
    cases = tuple(
        replace(
            case,
            server=each.strategy,
            settings=strategies.settings((each.strategy, each.workers)),
            users=users(model, found),
        )
        for each in found
    )
    pairs = tuple((0, place) for place in range(1, len(cases)))
    block = Block(tuple(range(len(cases))), pairs)
    seed = plans.new_seed()
    return Plan(SUITE, cases, seed, None, True, blocks=(block,), budget_s=budget_s, selects=True)
