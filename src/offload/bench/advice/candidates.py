"""The candidates: the strategies and sizes that are worth measuring, by the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from offload.bench.advice import certainty, strategies
from offload.bench.advice.prediction.model import Model, Prediction
from offload.bench.planning import plan as plans
from offload.bench.planning.blocks import Block
from offload.bench.planning.plan import Plan
from offload.suites import Case

# Minimum share of the best predicted rate. The best strategy was below 0.85 of it in 2 of 152
# answers about short functions, and never below 0.75.
WORTH_MEASURING = 0.75
MOST = 5  # more candidates would leave too few rounds for each
FEWEST_ROUNDS = 3  # that must fit into the budget, unless only two candidates are left
# Fixed parts, in s, of the time of a round and of each of its windows; the rest depends on the rate
FIXED_ROUND_S, FIXED_WINDOW_S = 3.0, 1.0
SUITE = "advise"


def select(model: Model, budget_s: float) -> list[Prediction]:
    """Return the best strategy at its best size, then others that may be as good.

    The others are at most two strategies whose predicted rates are near the best one, or the next
    best strategy if there is none; then other sizes of these strategies. The loop is one of these
    strategies if it loses little: it needs no workers, so an answer prefers it. The list has at
    most MOST candidates. It is shortened, to two candidates at least, until FEWEST_ROUNDS rounds
    fit into `budget_s`. At least one strategy must fit into the memory limit of the model.
    """
    best, *others = model.ranking()
    others.sort(key=lambda each: _is_nearly_best_loop(each, best), reverse=True)
    near = [each for each in others if _is_near(each, best)][:2] or others[:1]
    sizes = [each for each in _other_sizes(model, best, near) if _is_near(each, best)]
    found = [best, *near, *sizes][:MOST]
    while len(found) > 2 and FEWEST_ROUNDS * round_s(model, found) > budget_s:
        found.pop()
    return found


def _is_nearly_best_loop(found: Prediction, best: Prediction) -> bool:
    return found.strategy == "loop" and certainty.is_near(found.rate / best.rate)


def _is_near(found: Prediction, best: Prediction) -> bool:
    return found.rate >= WORTH_MEASURING * best.rate


def _other_sizes(model: Model, best: Prediction, others: Sequence[Prediction]) -> list[Prediction]:
    """Return the next smaller size of each strategy, the best first, then the next larger one.

    The best size is the smallest one that reaches nearly the highest predicted rate. In exhaustive
    measurements, the next smaller one was more often clearly faster than the next larger one.
    """
    smaller = [_neighbour(model, each, -1) for each in (best, *others)]
    known = sorted((each for each in smaller if each is not None), key=lambda each: -each.rate)
    larger = _neighbour(model, best, 1)
    return known if larger is None else [*known, larger]


def _neighbour(model: Model, prediction: Prediction, step: int) -> Prediction | None:
    """Return the prediction of the next smaller (-1) or larger size (1); None at the end."""
    sizes = model.sizes(prediction.strategy)
    place = sizes.index(prediction.workers) + step
    return model.predict(prediction.strategy, sizes[place]) if 0 <= place < len(sizes) else None


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
    """Return the plan of one block; its fastest case is compared with the others."""
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
    return Plan(
        SUITE,
        cases,
        plans.new_seed(),
        None,
        quick=True,
        blocks=(block,),
        budget_s=budget_s,
        selects=True,
        predicted=tuple(each.rate for each in found),
    )
