"""The probe: calls of a function alone, on a loop, in threads and in processes."""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from offload import resource_limits
from offload.engine import calling_process
from offload.engine.calling_process import CallingProcess
from offload.errors import RunError
from offload.studies.advise import costs, probe_measurement
from offload.studies.advise.evidence import LOOPS, POOL, Question
from offload.studies.advise.evidence import THREADS as IN_THREADS
from offload.studies.advise.function import SERVERS
from offload.studies.advise.prior import Prior
from offload.studies.advise.probe import FIRST, LOOP, PROCESSES, THREADS, Point, Probe
from offload.suites import Case
from tests.studies.advise.probes import point, probe

SHOP = """
import asyncio, functools
def logged(function):
    @functools.wraps(function)
    def wrapper(*arguments): return function(*arguments)
    return wrapper
@logged
async def decorated(): return b"42"
class Quote:
    async def __call__(self): return b"42"
called = Quote()
async def plain(): return b"42"
@functools.wraps(plain)
def runs(): return asyncio.run(plain())
"""
SQLITE = """
import sqlite3
DATABASE = sqlite3.connect(":memory:")
def quote(): return str(DATABASE.execute("select 42").fetchone())
"""
ASYNC_LOCK = """
import asyncio, threading, time
lock, free = asyncio.Lock(), asyncio.Event()
free.set()
async def quote():
    async with lock: await asyncio.sleep(0.005)
    return b"42"
async def endless():
    if threading.current_thread() is not threading.main_thread(): time.sleep(25)
    return b"42"
async def alone():
    if not free.is_set(): raise RuntimeError("another call is in progress")
    free.clear()
    await asyncio.sleep(0.005)
    free.set()
    return b"42"
"""
KNOWN = probe(wait_s=0.02, cpu_s=0.001, hold=0.05)
CALL = replace(KNOWN.call, variation=1.5)  # one call in ten waits for 200 ms


def points(wall_s: float) -> list[Point]:
    count = resource_limits.cpu_count()
    found = point(PROCESSES, count, count / wall_s, 0.001)
    more = [point(THREADS, workers, 1.0, 0.001) for workers in (count, 25)]
    return [found, *more]  # threads also wait for the GIL


def kinds(known: Probe) -> set[str]:
    """Return what runs the calls in the candidates for a function."""
    found = Prior(costs.estimate_from_probe(known), Question()).candidates(SERVERS)
    return {each.kind for each in found}


def started(name: str, folder: Path) -> AbstractContextManager[CallingProcess]:
    """Start the probe of a function of `shop`, which is in a folder."""
    return calling_process.start(
        "offload.serving.task_probe",
        f"shop:{name}",
        python=None,
        path=str(folder),
        environment={},
        ready_s=30.0,
    )


GROWS = """
import time
CALLS, KEPT = [], []
def quote():
    CALLS.append(1)
    if len(CALLS) < 30: KEPT.append(b"x" * (300 << 10))
    time.sleep(0.02)
    return b"42"
"""


@pytest.mark.server
def test_memory_that_only_the_first_calls_take_is_no_leak(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(GROWS)
    known = probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:quote"), None, 4)
    assert known.leak_mib == 0.0


def test_the_wait_of_calls_that_vary_is_the_mean_of_all_calls() -> None:
    calls = probe_measurement.POINT_S * resource_limits.cpu_count() / 0.039
    found = probe_measurement._with_more_calls(CALL, round(calls), points(0.039))
    assert found.wait_s == pytest.approx((0.02 + 0.038) / 2, rel=0.02)
    assert found.cpu_s == CALL.cpu_s
    assert found.held_s == pytest.approx(CALL.held_s)


def test_the_wait_of_similar_calls_is_that_of_a_call_alone() -> None:
    assert probe_measurement._with_more_calls(KNOWN.call, 70, points(0.039)) == KNOWN.call
    assert probe_measurement._with_more_calls(CALL, 70, []) == CALL


def test_calls_that_may_wait_for_each_other_end_in_time() -> None:
    """25 calls of 1 s in a lock would take 25 s."""
    more, two = probe_measurement.more_threads, point(THREADS, 2, rate=2.0, cpu_s=0.0)
    locked = replace(two, wall_s=1.5)  # the mean of 1 and 2 s
    assert more(locked, 1.0, 25) == 5
    assert more(replace(locked, count=5, wall_s=3.0), 1.0, 25) == 5  # the last one
    waiting = replace(two, wall_s=1.05)
    assert more(waiting, 1.0, 25) == 10
    assert more(replace(waiting, count=10), 1.0, 25) == 25
    assert more(replace(locked, wall_s=0.015), 0.01, 25) == 25


LOCKED = """
import threading, time
LOCK = threading.Lock()
def locked():
    with LOCK:
        time.sleep(0.8)
def waiting():
    time.sleep(0.8)
"""


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "most"), [("locked", 6), ("waiting", 25)])
def test_a_probe_of_long_calls_ends_within_20_s(name: str, most: int, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(LOCKED)
    case = Case("threads", f"{tmp_path}/shop.py:{name}")
    started_s = time.monotonic()
    found = probe_measurement.measure(case, None, 25)
    assert time.monotonic() - started_s < 3 * 20
    assert most - 1 <= found.select_points(THREADS)[-1].count <= most


@pytest.mark.server
@pytest.mark.timeout(60)
@pytest.mark.parametrize("margin_s", [0.2, 20.0])
def test_a_function_is_too_slow_after_three_calls_or_a_timeout(
    margin_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(LOCKED)
    monkeypatch.setattr(probe_measurement, "SLOWEST_S", 0.5)
    monkeypatch.setattr(probe_measurement, "ALONE_S", 0.1)
    monkeypatch.setattr(probe_measurement, "ALONE_MARGIN_S", margin_s)
    seconds = "more than 0 s" if margin_s < 1 else "0.8 s"
    expected = (
        f"^one call of shop:locked takes {seconds}, too long to probe: compare servers yourself"
    )
    with pytest.raises(RunError, match=expected):
        probe_measurement.measure(Case("threads", "shop:locked", path=str(tmp_path)), None, 25)


NESTED = """
import time
from concurrent.futures import ThreadPoolExecutor
POOL, OTHER, SINGLE = ThreadPoolExecutor(2), ThreadPoolExecutor(2), ThreadPoolExecutor(1)
def inner():
    time.sleep(0.01)
    return b"42"
def outer(pool): return pool.submit(inner).result()
def nested(): return POOL.submit(outer, POOL).result()
def apart(): return POOL.submit(outer, OTHER).result()
def alone(): return SINGLE.submit(outer, SINGLE).result()
"""


@pytest.mark.server
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["nested", "alone", "apart"])
def test_calls_that_wait_for_the_queue_of_their_own_pool_are_reported_soon(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(NESTED)
    case = Case("threads", f"shop:{name}", path=str(tmp_path))
    began = time.monotonic()
    if name == "apart":
        assert not probe_measurement.measure(case, None, 4).fails(THREADS)
        return
    with pytest.raises(RunError) as raised:
        probe_measurement.measure(case, None, 4)
    assert time.monotonic() - began < 30.0
    all_of = {"alone": "the only thread of the pool SINGLE waits"}
    who = all_of.get(name, "all 2 threads of the pool POOL wait")
    assert f"calls do not end: {who} in outer (shop.py:8)" in str(raised.value)
    assert raised.value.remedy.startswith("call the inner function directly")


@pytest.mark.server
@pytest.mark.parametrize(
    ("name", "is_coroutine"),
    [("plain", True), ("decorated", True), ("called", True), ("runs", False)],
)
def test_a_coroutine_is_known_by_its_first_call(
    name: str, is_coroutine: bool, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with started(name, tmp_path) as child:
        first = child.request(json.dumps({"kind": FIRST, "count": 1, "seconds": 0.0}), 30.0)
    assert (first["failed"], first["is_coroutine"]) == (0, is_coroutine)


@pytest.mark.server
def test_a_function_whose_calls_fail_in_threads_is_not_advised_for_threads(tmp_path: Path) -> None:
    """Each connection to SQLite belongs to the thread that created it."""
    (tmp_path / "shop.py").write_text(SQLITE)
    with calling_process.start(
        "offload.serving.task_probe",
        "shop:quote",
        python=None,
        path=str(tmp_path),
        environment={},
        ready_s=30.0,
    ) as child:
        assert probe_measurement.request(child, FIRST, 1, 0.0)["failed"] == 0
        points = [probe_measurement.point(child, kind, 2) for kind in (THREADS, PROCESSES)]
    assert [each.failed for each in points] == [1.0, 0.0]
    assert IN_THREADS not in kinds(replace(KNOWN, points=tuple(points)))


@pytest.mark.server
@pytest.mark.parametrize("users", [1, 4])
def test_a_coroutine_whose_lock_belongs_to_one_loop_is_not_advised_for_threads(
    users: int, tmp_path: Path
) -> None:
    """Calls on other loops, in threads, must not wait forever for the lock."""
    (tmp_path / "shop.py").write_text(ASYNC_LOCK)
    known = probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:quote"), None, users)
    assert known.fails(THREADS)
    assert not known.fails(PROCESSES)
    assert IN_THREADS not in kinds(known)
    assert LOOPS in kinds(known)


@pytest.mark.server
def test_threads_in_which_a_coroutine_waits_forever_are_not_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(ASYNC_LOCK)
    monkeypatch.setattr(probe_measurement, "COROUTINE_MARGIN_S", 0.5)
    known = probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:endless"), None, 4)
    assert known.fails(THREADS)
    assert not known.fails(PROCESSES)
    assert IN_THREADS not in kinds(known)


@pytest.mark.server
def test_a_coroutine_that_fails_beside_another_call_is_not_advised_for_the_loop(
    tmp_path: Path,
) -> None:
    """Such as a connection of asyncpg."""
    (tmp_path / "shop.py").write_text(ASYNC_LOCK)
    known = probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:alone"), None, 4)
    assert known.fails(LOOP)
    assert known.call.failed == 0
    assert kinds(known) == {POOL}
