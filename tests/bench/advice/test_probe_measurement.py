"""The figures of a probe are means of enough calls."""

from __future__ import annotations

import json
import platform
import socket
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload import cores
from offload.bench.advice.inputs import probe_measurement, probe_points
from offload.bench.advice.inputs.probe import (
    FIRST,
    KEPT_PAGES,
    LOOP,
    PROCESSES,
    THREADS,
    Point,
)
from offload.bench.advice.inputs.probe_measurement import InterruptedProbe
from offload.bench.advice.inputs.probe_points import PASSES
from offload.bench.advice.prediction.limits import EXTERNAL
from offload.bench.target import calling_process
from offload.bench.target.calling_process import CallingProcess
from offload.errors import RunError
from offload.suites import Case
from tests.bench.advice.probes import model, point, probe

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
PAGES = """
def frees(): return b"%d" % len([bytearray(b"x") * (4 << 20) for _ in range(4)])
def adds(): return b"%d" % sum(range(30_000))
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
CONNECTS = """
import socket
ADDRESS = ("127.0.0.1", {port})
kept = []
def opens():
    with socket.create_connection(ADDRESS): return b"42"
def keeps():
    if not kept: kept.append(socket.create_connection(ADDRESS))
    return b"42"
def local():
    one, other = socket.socketpair()
    one.close(), other.close()
    return b"42"
def none(): return b"42"
"""
KNOWN = probe(wait_s=0.02, cpu_s=0.001, hold=0.05)
CALL = replace(KNOWN.call, variation=1.5)  # one call in ten waits for 200 ms


def points(wall_s: float) -> list[Point]:
    count = cores.available()
    found = point(PROCESSES, count, count / wall_s, 0.001)
    more = [point(THREADS, workers, 1.0, 0.001) for workers in (count, 25)]
    return [found, *more]  # threads also wait for the GIL


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


def test_the_wait_of_calls_that_vary_is_the_mean_of_all_calls() -> None:
    calls = probe_points.PASSES * probe_points.POINT_S * cores.available() / 0.039
    found = probe_measurement._with_more_calls(CALL, round(calls), points(0.039), PASSES)
    assert found.wait_s == pytest.approx((0.02 + 0.038) / 2, rel=0.02)
    assert found.cpu_s == CALL.cpu_s
    assert found.held_s == pytest.approx(CALL.held_s)


def test_the_wait_of_similar_calls_is_that_of_a_call_alone() -> None:
    assert probe_measurement._with_more_calls(KNOWN.call, 70, points(0.039), PASSES) == KNOWN.call
    assert probe_measurement._with_more_calls(CALL, 70, [], PASSES) == CALL


def test_calls_that_may_wait_for_each_other_end_in_time() -> None:
    """25 calls of 1 s in a lock would take 25 s."""
    more, two = probe_points.more_threads, point(THREADS, 2, rate=2.0, cpu_s=0.0)
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
    assert most - 1 <= found.of_kind(THREADS)[-1].count <= most


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
    expected = f"^one call of shop:locked takes {seconds}, too long to probe: compare strategies "
    with pytest.raises(RunError, match=expected):
        probe_measurement.measure(Case("threads", "shop:locked", path=str(tmp_path)), None, 25)


def test_a_point_is_the_mean_of_its_passes() -> None:
    one, other = (
        point(PROCESSES, 2, 10.0, 0.1, results=1),
        point(PROCESSES, 2, 20.0, 0.3, results=2),
    )
    found = probe_points._mean([one, other])
    assert (found.rate, found.cpu_s, found.results) == (15.0, pytest.approx(0.2), 2)
    assert found.on_loop_s is None
    on_loop = [replace(each, on_loop_s=s) for each, s in ((one, 0.01), (other, 0.03))]
    assert probe_points._mean(on_loop).on_loop_s == pytest.approx(0.02)


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
@pytest.mark.parametrize(
    ("name", "opened"), [("opens", 1), ("keeps", 0), ("local", 0), ("none", 0)]
)
def test_the_connections_that_a_call_opens_are_counted(
    name: str, opened: int, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "shop.py").write_text(CONNECTS.format(port=server.getsockname()[1]))
        with started(name, tmp_path) as child:
            for kind in (FIRST, probe_measurement.CONNECTIONS):
                command = {"kind": kind, "count": 1, "seconds": 0.0}
                found = child.request(json.dumps(command), 30.0)
    assert found["connections"] == opened


@pytest.mark.server
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries keep pages anyway")
@pytest.mark.parametrize(("name", "has_faults"), [("frees", True), ("adds", False)])
def test_processes_that_keep_pages_are_measured_if_calls_have_many_page_faults(
    name: str, has_faults: bool, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(PAGES)
    case = Case("threads", f"shop:{name}", users=2, path=str(tmp_path))
    found = probe_measurement.measure(case, None, 2)
    assert found.call.has_many_page_faults is has_faults
    assert [each.count for each in found.of_kind(KEPT_PAGES)] == [cores.available()] * has_faults
    assert (found.kept_pages_factor < 0.8) is has_faults


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
        assert probe_points.request(child, FIRST, 1, 0.0)["failed"] == 0
        points = [probe_points.point(child, kind, 2) for kind in (THREADS, PROCESSES)]
    assert [each.failed for each in points] == [1.0, 0.0]
    found = model(replace(KNOWN, points=tuple(points)))
    assert "threads" not in {each.strategy for each in found.ranking()}


@pytest.mark.server
@pytest.mark.parametrize("users", [1, 4])
def test_a_coroutine_whose_lock_belongs_to_one_loop_is_not_advised_for_threads(
    users: int, tmp_path: Path
) -> None:
    """Calls on other loops, in threads, must not wait forever for the lock."""
    (tmp_path / "shop.py").write_text(ASYNC_LOCK)
    known = probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:quote"), None, users)
    assert known.fails_in_threads
    assert not known.fails_in_processes
    found = model(known, users=4)
    assert "threads" not in {each.strategy for each in found.ranking()}
    one, two = (found.predict("prefork", count) for count in (1, 2))
    assert one.limit == EXTERNAL
    assert one.rate == pytest.approx(known.of_kind(LOOP)[-1].rate, rel=0.1)
    assert two.rate > 1.5 * one.rate


@pytest.mark.server
def test_threads_in_which_a_coroutine_waits_forever_are_not_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(ASYNC_LOCK)
    monkeypatch.setattr(probe_points, "COROUTINE_MARGIN_S", 0.5)
    monkeypatch.setattr(probe_measurement, "COROUTINE_MARGIN_S", 0.5)
    known = probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:endless"), None, 4)
    assert known.fails_in_threads
    assert not known.fails_in_processes
    found = model(known, users=4)
    assert "threads" not in {each.strategy for each in found.ranking()}


@pytest.mark.server
def test_a_coroutine_that_fails_beside_another_call_is_not_advised_for_the_loop(
    tmp_path: Path,
) -> None:
    """Such as a connection of asyncpg."""
    (tmp_path / "shop.py").write_text(ASYNC_LOCK)
    known = probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:alone"), None, 4)
    assert known.fails_on_loop
    assert known.call.failed == 0
    found = {each.strategy for each in model(known, users=4).ranking()}
    assert found.isdisjoint({"loop", "prefork"})
    assert "pipes" in found
    assert not model(known, users=1).fails_in("loop")


def interrupt_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt the probe when it starts a pass for the `number`th time."""
    starts = 0
    real = probe_points.request

    def request(child: CallingProcess, kind: str, *arguments: float) -> Any:
        nonlocal starts
        starts += kind == probe_points.CROWDING
        if starts == number:
            raise KeyboardInterrupt
        return real(child, kind, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(probe_points, "request", request)


@pytest.mark.server
@pytest.mark.parametrize(("number", "kinds"), [(1, set()), (2, {THREADS, PROCESSES})])
def test_an_interrupted_probe_has_the_calls_alone_and_the_complete_passes(
    number: int, kinds: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(PAGES)
    interrupt_at(number, monkeypatch)
    with pytest.raises(InterruptedProbe) as interrupt:
        probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:adds"), None, 2)
    found = interrupt.value.probe
    assert {each.kind for each in found.points} == kinds
    assert found.call.wall_s > 0
    assert found.call.connections is None


@pytest.mark.server
def test_a_coroutine_is_unknown_before_its_calls_on_one_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    interrupt_at(1, monkeypatch)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        probe_measurement.measure(Case("threads", f"{tmp_path}/shop.py:plain"), None, 2)
    assert interrupt.type is KeyboardInterrupt
