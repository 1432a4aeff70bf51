"""The loads of the race: random arrivals, and which set-ups are loaded at the required rate."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from offload.loads import Arrivals
from offload.studies.advise.choice import Choice
from offload.studies.advise.evidence import THREADS, Evidence, Question, Setup
from offload.studies.advise.race import LOAD_S, WARM_S, Race, typical_seeds
from offload.suites import Case

CAPACITY, RATE = 385.0, 308.0


def _p99(seeds: list[int], seconds: float) -> float:
    """Return the p99 of the times in one queue, simulated apart from the race's own code."""
    times: list[float] = []
    for seed in seeds:
        rng, now, free = random.Random(seed), 0.0, 0.0
        while (now := now + rng.expovariate(RATE)) < seconds:
            free = max(now, free) + 1 / CAPACITY
            if now >= WARM_S:
                times.append(free - now)
    return sorted(times)[int(0.99 * len(times))]


def _seeds(count: int, seed: int) -> list[int]:
    return typical_seeds([Arrivals(RATE, "poisson")] * count, CAPACITY, seed)


def test_short_loads_are_like_a_long_one_whatever_the_seed() -> None:
    whole = _p99([7], 3600.0)
    found = [_p99(_seeds(4, 1_000_000 * n), WARM_S + LOAD_S) / whole for n in range(10)]
    assert all(0.75 < each < 1.35 for each in found)
    plain = [_p99([1000 * n + m for m in range(4)], WARM_S + LOAD_S) / whole for n in range(10)]
    assert max(found) / min(found) < max(plain) / min(plain)


@pytest.mark.parametrize("rate", [0.5, 40.0, 20_000.0])
def test_each_load_has_a_seed_of_its_own_at_any_rate(rate: float) -> None:
    loads = [Arrivals(rate / 2, "poisson"), *[Arrivals(rate, "poisson")] * 4]
    seeds = typical_seeds(loads, 1.25 * rate, 5)
    assert len(seeds) == 5
    assert len(set(seeds[1:])) == 4


class Chosen(Race):
    """A race whose loads at the required rate make another set-up the choice, once for each."""

    def choice(self) -> Choice | None:
        number = min(len(self.loaded), len(self.chosen) - 1)
        best = Evidence(self.chosen[number], {1: 150.0})
        return Choice(best, None, {}, None, (best,))

    def load(self, setups: Sequence[Setup], *_: Any) -> None:
        self.loaded += setups


@pytest.mark.parametrize(("left_s", "loads"), [(math.inf, 2), (5.0, 1)])
def test_what_the_load_at_the_required_rate_makes_the_choice_is_loaded_too(
    left_s: float, loads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setups = [Setup("threads", THREADS, 9, 2), Setup("threads", THREADS, 2, 8)]
    race = Chosen(Question(rate=100.0), Case("threads", "noop_sync"), tmp_path, print, 0.0)
    race.chosen, race.loaded = setups, []  # type: ignore[attr-defined]
    monkeypatch.setattr(Race, "_left_s", left_s)
    race._measure_required_rate(None)
    assert race.loaded == setups[:loads]
