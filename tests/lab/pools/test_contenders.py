"""The benchmark of pools measures each requested pool once in each cell."""

from __future__ import annotations

import json
import operator
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab import environment
from lab.pools.contenders import process as contender_process
from lab.pools.contenders.main import CLOSE_TIMEOUT
from lab.pools.contenders.process import ContenderProcess
from lab.pools.slices import children
from tests.waiting import is_running, read_line, wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(150)]

BEGIN = 30.0  # s for one pool to begin, or for the whole benchmark to end

POOLS = (
    "event loop",
    "PipePool zero_copy_result",
    "PipePool zero_copy_args",
    "PipeExecutor",
    "multiprocessing.Pool",
    "process",
    "PipePool",
)
ENDS = "process fork"  # is measured in the same way as "process"
COMMAND = (
    sys.executable,
    "-P",
    "-m",
    "lab.pools",
    "--seconds=0",
    "--budget=0",
    "--quick",
)


@contextmanager
def running_benchmark(
    pools: tuple[str, ...], *words: str
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Start a benchmark; yield its process and the pids of its pools."""
    command = [*COMMAND, f"--pools={','.join(pools)}", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment(), stdout=pipe, stderr=pipe, text=True
    ) as running:
        try:
            yield running, [json.loads(read_line(running.stdout, BEGIN))["pid"] for _ in pools]
        finally:
            running.kill()
            running.communicate(timeout=BEGIN)


def of_kind(kind: str, output: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, output.splitlines()) if line["kind"] == kind]


@pytest.fixture(scope="module")
def output() -> str:
    """Return the output of a benchmark in which one pool exits after all have started."""
    with running_benchmark((*POOLS, ENDS), "--mixture=0.05", "--chaos=1") as (running, pids):
        os.kill(pids[-1], signal.SIGKILL)
        out, error = running.communicate(timeout=100)
    assert (running.returncode, error) == (0, "")
    return out


def test_a_pool_that_is_not_known_is_refused() -> None:
    command = [*COMMAND, "--pools=PipePool,no such pool"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (2, "unknown pool: 'no such pool'\n")


@pytest.mark.slow
def test_each_pool_is_measured_in_each_cell_of_each_round(output: str) -> None:
    slices = of_kind("slice", output)
    assert {line["round"] for line in slices} == {*range(15)}  # 3 of each amount of bytes
    amounts = [line["bytes"] for line in sorted(slices, key=operator.itemgetter("round"))]
    assert amounts == sorted(amounts)
    cells = {"event loop": 1, "PipePool zero_copy_result": 9, "PipePool zero_copy_args": 2}  # of 15
    for number in range(3):
        counted = Counter(line["pool"] for line in slices if line["round"] % 3 == number)
        assert counted == {pool: cells.get(pool, 15) for pool in POOLS}
    assert all(line["rate"] > 0 and line["cpu_us"] > 0 for line in slices)


@pytest.mark.slow
def test_a_pool_whose_process_ends_is_missing_and_loses_no_other(output: str) -> None:
    assert [line["pool"] for line in of_kind("missing", output)] == [ENDS]
    assert {line["pool"] for line in of_kind("slice", output)} == {*POOLS}


@pytest.mark.slow
def test_a_mixture_has_the_same_tasks_for_all_pools(output: str) -> None:
    mixtures = of_kind("mixture", output)
    counts = Counter((line["round"], line["n"]) for line in mixtures)
    assert (len(mixtures), set(counts.values())) == (20, {2})


@pytest.mark.slow
def test_chaos_loses_nothing_that_is_retried(output: str) -> None:
    retried, not_retried = of_kind("chaos", output)
    assert (retried["failed"], retried["restarts"]) == (0, retried["kills"])
    assert not_retried["failed"] <= not_retried["held"]
    assert retried["calm_failed"] == not_retried["calm_failed"] == 0


def test_each_pool_has_its_own_process_and_none_outlives_a_benchmark_that_is_killed() -> None:
    before = children()
    pools = ("process", "PipePool", "socket pair", "PipeExecutor", "multiprocessing.Pool", ENDS)
    with running_benchmark((*pools, "event loop"), "--seconds=60") as (running, pids):
        found = children() - before
        assert len({running.pid, *pids} & found) == len(pools) + 2
        in_groups = Counter(os.getpgid(pid) for pid in found)
        assert all(in_groups[pid] > 1 for pid in pids[:-1])
        running.kill()
        assert wait_until(lambda: not any(map(is_running, found)), 6 * CLOSE_TIMEOUT)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(0.5, id="by us"),
        pytest.param(10.0, marks=pytest.mark.slow, id="by itself, when its alarm rings"),
    ],
)
def test_a_pool_that_does_not_end_is_killed_with_its_processes(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contender_process, "CLOSE_TIMEOUT", seconds)
    before = children()
    contender = ContenderProcess("process fork", 2)
    pid = contender.request("start")["pid"]
    workers = children() - before - {pid}
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    contender.close()
    assert len(workers) == 2
    assert wait_until(lambda: not any(map(is_running, (pid, *workers))))
