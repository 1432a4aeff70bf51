"""The simulation of clusters agrees with arithmetic where arithmetic is exact."""

from __future__ import annotations

import pytest

from lab.experiments.cluster.cluster_simulation import Cluster, Costs

pytestmark = pytest.mark.unit


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
