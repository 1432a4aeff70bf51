"""The simulations of servers and of clusters agree with arithmetic where arithmetic is exact."""

from __future__ import annotations

import pytest

from lab.experiments import server_simulation as simulation
from lab.experiments.cluster.cluster_simulation import Cluster, Costs
from lab.experiments.server_simulation import Call
from offload.bench.advice.inputs.overhead import Overhead

pytestmark = pytest.mark.unit

NONE = Overhead(0.0, 0.0)


@pytest.mark.parametrize(
    ("strategy", "workers", "call", "cores", "expected"),
    [
        ("loop", 1, Call(0.05, 0.01), 4, 1 / 0.06),
        ("threads", 8, Call(0.05, 0.0), 2, 8 / 0.05),
        ("threads", 8, Call(0.0, 0.01, hold=1.0), 8, 1 / 0.01),
        ("threads", 8, Call(0.0, 0.01), 8, 8 / 0.01),
        ("processes", 8, Call(0.0, 0.01, hold=1.0), 8, 8 / 0.01),
        ("pipes", 32, Call(0.0, 0.01), 4, 4 / 0.01),
        ("prefork", 16, Call(0.04, 0.01), 16, 16 / 0.05),
    ],
)
def test_one_limit(strategy: str, workers: int, call: Call, cores: int, expected: float) -> None:
    rate = simulation.rate(strategy, workers, call, cores, 64, NONE)
    assert rate == pytest.approx(expected, rel=0.04)


def test_the_event_loop_limits_a_pool() -> None:
    rate = simulation.rate("pipes", 16, Call(0.0, 0.001), 16, 64, Overhead(0.001, 0.001))
    assert rate == pytest.approx(1 / 0.001, rel=0.04)


def test_waits_overlap_with_the_work_of_others() -> None:
    alone, both = (simulation.rate("processes", n, Call(0.02, 0.02), 2, 64, NONE) for n in (2, 8))
    assert alone == pytest.approx(2 / 0.04, rel=0.04)
    assert 1.5 * alone < both < 2 / 0.02 * 1.02


@pytest.mark.parametrize(
    ("cluster", "task_s", "expected"),
    [
        (Cluster(Costs(0, 0.001, 0, 0, 0, 0, 0), workers=100, submitters=200), 0.01, 1 / 0.001),
        (Cluster(Costs(0.002, 0.001, 0, 0, 0, 0, 0), workers=100, submitters=200), 0.01, 1 / 0.002),
        (Cluster(Costs(0, 0, 0.01, 0, 0, 0, 0), workers=10, submitters=20), 0.04, 10 / 0.05),
        (Cluster(Costs(0, 0, 0, 0, 0, 0, 0.005), workers=10, submitters=1), 0.005, 1 / 0.01),
        (Cluster(Costs(0, 0, 0, 0, 0.001, 0, 0), 100, submitters=5, batch=10), 0.0, 10 / 0.001),
        (Cluster(Costs(0, 0, 0.01, 0, 0, 0, 0), workers=10, submitters=20, cores=2), 0.0, 2 / 0.01),
    ],
)
def test_one_limit_of_a_cluster(cluster: Cluster, task_s: float, expected: float) -> None:
    assert cluster.rate(task_s, tasks=10_000) == pytest.approx(expected, rel=0.08)  # ends in bursts
