"""The benchmark of the pools: every pool that is asked for has its moment in every cell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import catalog

POOLS = (
    "event loop",
    "PipePool leased",
    "PipePool lent",
    "PipeExecutor",
    "process fork",
    "multiprocessing.Pool",
)


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "executors", "--seconds=0", "--budget=0", "--quick", *words]
    return subprocess.run(command, cwd=catalog.ROOT, capture_output=True, text=True, timeout=60)


def test_a_pool_that_is_not_known_is_refused() -> None:
    said = bench("--pools=PipePool,no such pool")
    assert (said.returncode, said.stderr) == (2, "no pool is called 'no such pool'\n")


def test_each_pool_is_measured_in_each_cell_of_each_round() -> None:
    said = bench(f"--pools={','.join(POOLS)}")
    assert (said.returncode, said.stderr) == (0, "")
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert [line["pool"] for line in lines if line["kind"] == "pool"] == list(POOLS)
    slices = [line for line in lines if line["kind"] == "slice"]
    assert {line["round"] for line in slices} == {0, 1, 2}
    assert Counter(line["pool"] for line in slices if line["round"] == 1) == {
        "event loop": 1,
        "PipePool leased": 9,
        "PipePool lent": 2,
        "PipeExecutor": 15,
        "process fork": 15,
        "multiprocessing.Pool": 15,
    }
    assert all(line["rate"] > 0 and line["cpu_us"] > 0 for line in slices)


def test_a_mixture_asks_all_pools_for_the_same_and_a_storm_loses_nothing_that_is_retried() -> None:
    said = bench("--pools=process,PipePool", "--mixture=0.2", "--storm=1")
    assert (said.returncode, said.stderr) == (0, "")
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    mixtures = [line for line in lines if line["kind"] == "mixture"]
    asked = Counter((line["round"], line["n"]) for line in mixtures)
    assert (len(mixtures), set(asked.values())) == (20, {2})
    retried, not_retried = (line for line in lines if line["kind"] == "storm")
    assert (retried["failed"], retried["restarts"]) == (0, retried["kills"])
    assert not_retried["failed"] <= not_retried["held"]
    assert retried["calm_failed"] == not_retried["calm_failed"] == 0
