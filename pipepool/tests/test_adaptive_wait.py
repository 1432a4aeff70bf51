"""How workers wait: they poll for a moment in a stream of tasks, and sleep otherwise."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import psutil
import pytest

from pipepool import PipePool, pool, worker
from pipepool.worker import AdaptiveWait


def cpu_of_waits(gap_s: float, number: int, polls: bool) -> float:
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
    waiting.is_busy = polls
    used = 0.0
    for _ in range(number):
        go.release()
        began = time.thread_time()
        waiting.wait_for_data()
        used += time.thread_time() - began
        assert here.recv(2) == b"x"
    sender.join(10)
    here.close()
    there.close()
    return used


@pytest.mark.parametrize(
    ("gap_s", "polls", "is_awake"),
    [(0.001, True, True), (0.001, False, False), (0.02, True, False)],
)
def test_a_worker_polls_only_if_waits_are_short_and_busy_wait_is_on(
    gap_s: float, polls: bool, is_awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "BUSY_WAIT", 8_000_000)
    monkeypatch.setattr(worker, "LONGEST_WAIT", 40_000_000)
    number = 60
    used = cpu_of_waits(gap_s, number, polls)
    assert (used > number * 0.0003) == is_awake  # s: it polls in the gap, or sleeps


def test_a_wait_ends_when_the_socket_is_closed() -> None:
    here, there = socket.socketpair()
    waiting = AdaptiveWait(here)
    waiting.is_busy = True
    there.close()
    for _ in range(50):
        waiting.wait_for_data()
    assert here.recv(1) == b""
    here.close()


@pytest.mark.parametrize(("workers", "spare"), [(1, True), (2, True), (3, False), (4, False)])
def test_busy_wait_is_on_if_there_are_two_more_cpus_than_workers(
    workers: int, spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "available_cpus", lambda: 4)
    assert pool.configure(workers).setup.busy_wait == spare


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
