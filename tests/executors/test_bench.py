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


def test_each_pool_is_measured_in_each_cell_of_each_round() -> None:
    words = ["--seconds=0", "--budget=0", "--quick", f"--pools={','.join(POOLS)},no such pool"]
    command = [sys.executable, "-m", "executors", *words]
    said = subprocess.run(command, cwd=catalog.ROOT, capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stderr) == (2, "no pool is called 'no such pool'\n")
    command[-1] = f"--pools={','.join(POOLS)}"
    said = subprocess.run(command, cwd=catalog.ROOT, capture_output=True, text=True, timeout=60)
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
