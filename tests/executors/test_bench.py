"""The benchmark of the pools: every pool that is asked for has its moment in every cell."""

from __future__ import annotations

import asyncio
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

import catalog
from executors._apart import Apart
from executors._slice import children
from executors._turns import ENDING
from tests.executors.conftest import lives, wait_for

POOLS = (
    "event loop",
    "PipePool leased",
    "PipePool lent",
    "PipeExecutor",
    "process fork",
    "multiprocessing.Pool",
)
COMMAND = (sys.executable, "-m", "executors", "--seconds=0", "--budget=0", "--quick")


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *words]
    return subprocess.run(command, cwd=catalog.ROOT, capture_output=True, text=True, timeout=60)


@contextmanager
def begun(pools: tuple[str, ...], *words: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Begin a benchmark; give it and the pids of its pools."""
    command = [*COMMAND, f"--pools={','.join(pools)}", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=catalog.ROOT, stdout=pipe, stderr=pipe, text=True
    ) as running:
        try:
            assert running.stdout is not None
            yield running, [json.loads(running.stdout.readline())["pid"] for _ in pools]
        finally:
            running.kill()


def of_kind(kind: str, said: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, said.splitlines()) if line["kind"] == kind]


def test_a_pool_that_is_not_known_is_refused() -> None:
    said = bench("--pools=PipePool,no such pool")
    assert (said.returncode, said.stderr) == (2, "no pool is called 'no such pool'\n")


def test_each_pool_is_measured_in_each_cell_of_each_round() -> None:
    said = bench(f"--pools={','.join(POOLS)}")
    assert (said.returncode, said.stderr) == (0, "")
    assert [line["pool"] for line in of_kind("pool", said.stdout)] == list(POOLS)
    slices = of_kind("slice", said.stdout)
    assert {line["round"] for line in slices} == {*range(15)}  # 3 of each amount of bytes
    amounts = [line["bytes"] for line in sorted(slices, key=operator.itemgetter("round"))]
    assert amounts == sorted(amounts)
    assert Counter(line["pool"] for line in slices if line["round"] % 3 == 1) == {
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
    mixtures = of_kind("mixture", said.stdout)
    asked = Counter((line["round"], line["n"]) for line in mixtures)
    assert (len(mixtures), set(asked.values())) == (20, {2})
    retried, not_retried = of_kind("storm", said.stdout)
    assert (retried["failed"], retried["restarts"]) == (0, retried["kills"])
    assert not_retried["failed"] <= not_retried["held"]
    assert retried["calm_failed"] == not_retried["calm_failed"] == 0


def test_each_pool_has_a_process_of_its_own_with_its_workers() -> None:
    before = children()
    with begun(("process", "PipePool", "socket pair"), "--seconds=60") as (running, pids):
        found = children() - before
        assert len({running.pid, *pids} & found) == 4
        in_groups = Counter(os.getpgid(pid) for pid in found)
        assert all(in_groups[pid] > 1 for pid in pids)


def test_a_pool_whose_process_ends_is_missing_and_loses_no_other() -> None:
    with begun(("process fork", "PipePool", "event loop")) as (running, pids):
        os.kill(pids[0], signal.SIGKILL)
        said, told = running.communicate(timeout=60)
    assert (running.returncode, told) == (0, "")
    assert [line["pool"] for line in of_kind("missing", said)] == ["process fork"]
    rounds = Counter(line["pool"] for line in of_kind("slice", said) if line["round"] % 3 == 2)
    assert rounds == {"PipePool": 15, "event loop": 1}


def test_nothing_outlives_a_benchmark_that_is_killed() -> None:
    before = children()
    with begun((*POOLS, "process", "socket pair"), "--seconds=60") as (running, _):
        all_of_it = children() - before
        running.kill()
        asyncio.run(wait_for(lambda: not any(lives(pid) for pid in all_of_it), 3 * ENDING))


def test_a_pool_that_does_not_end_is_killed_with_its_processes() -> None:
    before = children()
    contender = Apart("process fork", 2)
    pid = contender.ask("begin")["pid"]
    workers = children() - before - {pid}
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    contender.close()
    assert len(workers) == 2
    asyncio.run(wait_for(lambda: not any(lives(each) for each in (pid, *workers))))
