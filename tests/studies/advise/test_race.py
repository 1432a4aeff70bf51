"""Random arrivals of the race: short loads together must be like a long one."""

import random

import pytest

from offload.loads import Arrivals
from offload.studies.advise.race import LOAD_S, WARM_S, typical_seeds

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
