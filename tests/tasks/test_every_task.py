"""Every task by name: a new file is tested as soon as it exists."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import pytest
import requests

from offload import tasks
from offload.registry import catalog
from offload.upstream import Upstream

NAMES = list(catalog.tasks())
called = functools.cache(tasks.call)  # once by this process, where only the answer matters
TWINS = [n for n in NAMES if "_async" in n and n.replace("_async", "_sync") in NAMES]
pytestmark = pytest.mark.server  # many ask the upstream
# Eight parses at a time take seconds: by one parser in make test, by the others in test-all.
LONG = {"xml_etree_sync", "xml_lxml_sync", *(n for n in NAMES if "cpu_bound" in n)}
BLOCKING = [
    pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in NAMES if "_async" not in n
]
DOCUMENTED = [
    "sleep_sync",
    "sleep_async",
    "sleep_async_split",
    "network_sync_google",
    "network_sync_local",
    "network_sync",
    "network_https_sync",
    "network_https_cpu_bound_sync",
    "file_sync",
    "network_async_local",
    "network_sync_20ms",
    "network_async_20ms",
    "network_sync_100ms",
    "network_async_100ms",
    "network_sync_external",
    "network_async_external",
    "network_async_external_retry",
    "network_https_async",
    "network_https_async_retry",
    "network_https_cpu_bound_async",
    "file_async",
    "simplehash_sync",
    "simplehash_async",
    "checksum_sync",
    "checksum_async",
    "noop_sync",
    "xml_feedparser_sync",
    "xml_lxml_sync",
    "network_https_cpu_bound_lxml_sync",
    "xml_etree_sync",
    "sha256_sync",
    "count_sync",
    "count_slower_sync",
]


def test_every_documented_name_is_a_task() -> None:
    assert set() == set(DOCUMENTED) - set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_task_returns_the_same_bytes_by_call_and_by_acall(name: str) -> None:
    answer = called(name)
    assert type(answer) is bytes
    assert answer != b""
    assert answer == asyncio.run(tasks.acall(name))


@pytest.mark.parametrize("name", TWINS)
def test_twins_return_the_same_bytes(name: str) -> None:
    assert called(name.replace("_async", "_sync")) == called(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_summary_of_a_task_is_one_short_sentence(name: str) -> None:
    summary = catalog.tasks()[name].summary
    assert summary.endswith(".")
    assert 20 < len(summary) <= 93


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_a_coroutine_exactly_if_its_name_contains_async(name: str) -> None:
    assert ("_async" in name) == inspect.iscoroutinefunction(tasks.resolve(name))


def test_parsers_return_the_same_bytes() -> None:
    names = [n for n in NAMES if n.startswith("xml_") or "cpu_bound" in n]
    assert {b"100 items, the first is 'Locks and buffers: note 1'\n"} == set(map(called, names))


def test_sleeps_return_the_same_bytes() -> None:
    sleeps = [n for n in NAMES if n.startswith("sleep_")]
    assert len(set(map(called, sleeps))) == 1


@pytest.mark.parametrize("name", ["sleep_sync", "sleep_async", "sleep_async_split"])
def test_sleep_takes_its_280_ms(name: str) -> None:
    start = time.monotonic()
    tasks.call(name)
    assert 0.27 <= time.monotonic() - start < 2.8


def test_split_sleeps_overlap_on_one_loop_and_blocking_ones_do_not() -> None:
    async def ends_apart(name: str) -> list[float]:
        """Return the times between the ends of four calls that start together."""

        async def end() -> float:
            await tasks.acall(name)
            return time.monotonic()

        ends = sorted(await asyncio.gather(*(end() for _ in range(4))))
        return [after - before for before, after in pairwise(ends)]

    assert min(asyncio.run(ends_apart("sleep_async"))) >= 0.27
    assert max(asyncio.run(ends_apart("sleep_async_split"))) < 0.27


@pytest.mark.parametrize("name", ["network_async_local", "file_async"])
def test_async_task_runs_in_a_thread_and_in_a_process(name: str) -> None:
    here = called(name)
    with ThreadPoolExecutor(2) as threads:
        assert [here] * 4 == list(threads.map(tasks.call, [name] * 4, timeout=50))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert [here] * 4 == list(processes.map(tasks.call, [name] * 4, timeout=50))


def test_file_async_lets_the_loop_go_on() -> None:
    async def ticks() -> int:
        writing, count = asyncio.ensure_future(tasks.acall("file_async")), 0
        while not writing.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert asyncio.run(ticks()) > 1  # as it would be for one that awaits nothing


def test_file_leaves_nothing_behind(tmp_path: Path) -> None:
    env = os.environ | {"TMPDIR": str(tmp_path)}
    code = "from offload import tasks; tasks.call('file_sync'); tasks.call('file_async')"
    subprocess.run([sys.executable, "-c", code], env=env, timeout=20, check=True)
    assert list(tmp_path.iterdir()) == []


def test_retried_tasks_make_more_tries_than_calls(held: Upstream) -> None:
    def tries() -> int:
        return int(requests.get(f"{held.http}/status", timeout=5).json()["flaky_tries"])

    before = tries()
    for _ in range(10):
        tasks.call("network_https_async_retry")
        tasks.call("network_async_external_retry")
    assert tries() - before > 20


@pytest.mark.parametrize("name", BLOCKING)
def test_blocking_task_runs_eight_at_a_time(name: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(tasks.call, [name] * 8, timeout=50))) == 1
