"""The levels of the analyses keep the overall error rate at 5 %."""

from __future__ import annotations

import pytest

from offload.engine import intervals
from offload.engine.intervals import SequentialDesign
from tests.bench.stats.oracle import np, stats


@pytest.mark.parametrize(
    "counts", [intervals.NORMAL.counts, (5, 10, 15), intervals.QUICK.counts, (3, 5, 7, 10, 14)]
)
def test_a_case_differs_from_itself_in_5_percent_of_runs_wherever_they_end(
    counts: tuple[int, ...],
) -> None:
    values = np.random.default_rng(5).standard_normal((200_000, counts[-1]))
    wrong = np.zeros(len(values), bool)
    for n in counts:
        t = values[:, :n].mean(1) / values[:, :n].std(1, ddof=1) * n**0.5
        level = intervals.LEVEL if n == counts[-1] else intervals.EARLY
        wrong |= abs(t) > stats.t.ppf(1 - level / 2, n - 1)
    assert 0.043 < wrong.mean() < 0.0535


def test_a_run_stops_early_at_a_strict_level_only() -> None:
    levels = [intervals.QUICK.stopping_level(n) for n in (3, 5, 7, 10)]
    assert levels == [intervals.EARLY] * 2 + [intervals.QUICK.level] * 2


def test_only_the_counts_of_a_schedule_are_analyses() -> None:
    assert [n for n in range(30) if intervals.QUICK.is_analysis(n)] == [3, 5, 7]


def test_nothing_is_added_after_the_last_look() -> None:
    assert [intervals.sequential_design(is_quick).last for is_quick in (False, True)] == [40, 7]


@pytest.mark.parametrize("counts", [(), (5, 5), (7, 5), (1, 5)])
def test_a_schedule_that_does_not_rise_is_a_value_error(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        SequentialDesign(counts, 0.02)


@pytest.mark.parametrize("level", [0, 1, float("nan")])
def test_a_level_of_no_share_is_a_value_error(level: float) -> None:
    with pytest.raises(ValueError, match="ascend"):
        SequentialDesign((5, 10), level)
    with pytest.raises(ValueError, match="ascend"):
        SequentialDesign((5, 10), 0.04, early=0.05)
