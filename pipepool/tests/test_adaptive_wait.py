"""How workers wait: they poll for a moment in a stream of tasks, and sleep otherwise."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time

import psutil
import pytest

from pipepool import PipePool, configuration
from pipepool.workers import worker
from pipepool.workers.worker import AdaptiveWait


def cpu_of_waits(gap_s: float, number: int, polls: bool, tasks: int = 1) -> float:
    """Wait for `number` bytes, each after a gap; return the CPU time of the waits in s."""
    here, there = socket.socketpair()
    go = threading.Semaphore(0)

    def send() -> None:
        for _ in range(number):
            go.acquire(timeout=10)
            time.sleep(gap_s)
            there.send(b"x")

    sender = threading.Thread(target=send)
    sender.start()
    waiting = AdaptiveWait(here)
    waiting.busy_wait = 8_000_000 if polls else 0
    used = 0.0
    for _ in range(number):
        go.release()
        began = time.thread_time()
        waiting.wait_for_data(tasks)
        used += time.thread_time() - began
        assert here.recv(2) == b"x"
    sender.join(10)
    here.close()
    there.close()
    return used


@pytest.mark.timing  # gaps that are much longer than planned end the polling
@pytest.mark.parametrize(
    ("gap_s", "polls", "tasks", "is_awake"),
    [
        (0.001, True, 1, True),
        (0.001, False, 1, False),
        (0.001, True, 30, False),
        (0.02, True, 1, False),
    ],
)
def test_a_worker_polls_only_if_waits_are_short_tasks_few_and_busy_wait_is_on(
    gap_s: float, polls: bool, tasks: int, is_awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LONGEST_WAIT", 40_000_000)
    number, awake_s = 60, 60 * 0.0004  # polling takes 70 ms, and a sleep 0.02 to 0.15 ms
    used = cpu_of_waits(gap_s, number, polls, tasks)
    until = time.monotonic() + 30.0
    while is_awake and used < awake_s and time.monotonic() < until:
        used = cpu_of_waits(gap_s, number, polls, tasks)  # on a busy machine it has no CPU to poll
    assert (used > awake_s) == is_awake  # it polls in the gap, or sleeps


def test_a_wait_ends_when_the_socket_is_closed() -> None:
    here, there = socket.socketpair()
    waiting = AdaptiveWait(here)
    waiting.busy_wait = 200_000
    there.close()
    for _ in range(50):
        waiting.wait_for_data(1)
    assert here.recv(1) == b""
    here.close()


@pytest.mark.parametrize(
    ("workers", "cpus", "quota", "us"),
    [
        (1, 4, None, 200),
        (2, 4, 4.0, 200),
        (3, 4, None, 150),
        (4, 4, None, 150),
        (5, 4, None, 0),
        (1, 1, None, 0),  # the parent needs it
        (3, 4, 4.0, 0),  # polling would use up the quota
    ],
)
def test_workers_poll_by_default_if_each_can_have_a_cpu(
    workers: int, cpus: int, quota: float | None, us: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cpus), raising=False)
    monkeypatch.setattr(configuration, "_cgroup_quota", lambda: quota)
    assert configuration.PoolOptions(workers).setup.busy_wait == us * 1000


def test_busy_wait_overrides_the_default() -> None:
    assert configuration.PoolOptions(1, busy_wait=False).setup.busy_wait == 0
    assert configuration.PoolOptions(64, busy_wait=True).setup.busy_wait == 200_000


def test_idle_workers_use_no_cpu() -> None:
    async def test() -> float:
        async with PipePool(1) as pool:
            for _ in range(2000):
                await pool.run(int)
            [pid] = pool.stats().pids
            before = psutil.Process(pid).cpu_times()
            await asyncio.sleep(0.5)
            after = psutil.Process(pid).cpu_times()
            return after.user + after.system - before.user - before.system

    assert asyncio.run(test()) < 0.1
