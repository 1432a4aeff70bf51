"""How workers wait: awake for a moment in a stream of tasks, asleep else."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import psutil
import pytest

from pipepool import PipePool, pool, worker
from pipepool.worker import AdaptiveWait


def waits(gap_s: float, number: int, spin: bool) -> float:
    """Wait for so many bytes that come after a gap each; give the CPU time of the waits in s."""
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
    waiting.is_busy = spin
    used = 0.0
    for _ in range(number):
        go.release()
        began = time.thread_time()
        waiting.for_data()
        used += time.thread_time() - began
        assert here.recv(2) == b"x"
    sender.join(10)
    here.close()
    there.close()
    return used


@pytest.mark.parametrize(
    ("gap_s", "spin", "is_awake"), [(0.001, True, True), (0.001, False, False), (0.02, True, False)]
)
def test_a_worker_waits_awake_where_waits_are_short_and_there_is_a_core(
    gap_s: float, spin: bool, is_awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "BUSY_WAIT", 8_000_000)
    monkeypatch.setattr(worker, "LONGEST_WAIT", 40_000_000)
    number = 60
    used = waits(gap_s, number, spin)
    assert (used > number * 0.0003) == is_awake  # s: to spin for the gap, or to sleep


def test_the_end_of_the_stream_ends_a_wait() -> None:
    here, there = socket.socketpair()
    waiting = AdaptiveWait(here)
    waiting.is_busy = True
    there.close()
    for _ in range(50):
        waiting.for_data()
    assert here.recv(1) == b""
    here.close()


@pytest.mark.parametrize(("workers", "spare"), [(1, True), (2, True), (3, False), (4, False)])
def test_awake_are_workers_that_leave_a_core_beside_the_parents(
    workers: int, spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "available_cpus", lambda: 4)
    assert pool.configure(workers).setup.busy_wait == spare


def test_workers_that_have_nothing_to_do_take_no_cpu() -> None:
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
