"""The clocks of a user's application keep separate figures for each route."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from offload.serving.metrics import forked_threads, request_clock
from offload.serving.metrics.samples import Samples

TOGETHER = threading.Barrier(2)


class Route(str):
    """A route whose look-ups wait for the other thread, at most 0.2 s, so that both coincide."""

    __slots__ = ()

    def __hash__(self) -> int:
        with suppress(threading.BrokenBarrierError):
            TOGETHER.wait(0.2)
        return str.__hash__(self)


def test_routes_that_are_new_at_the_same_time_have_figures_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_clock, "_routes", {})
    monkeypatch.setattr(request_clock, "_samples", Samples(13))
    monkeypatch.setattr(request_clock, "_share", 1.0)
    monkeypatch.setattr(request_clock, "MOST", 10**9)
    TOGETHER.reset()
    started = time.monotonic()

    def request(route: str) -> None:
        request_clock.leave(*request_clock.enter(), Route(route))

    threads = [threading.Thread(target=request, args=(f"GET /{n}",)) for n in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    found = request_clock.between(started, time.monotonic())["routes"]
    assert sorted(str(each["route"]) for each in found) == ["GET /a", "GET /b"]


def test_a_cost_grows_only_from_each_part_to_the_next() -> None:
    slope = [0.001 * number for number in range(1, 61)]
    assert request_clock._growth(slope) == pytest.approx(54.5 / 6.5, abs=0.001)
    assert request_clock._growth([0.001] * 40 + [0.003] * 20) is None  # a disturbance at the end
    assert request_clock._growth(slope[:20]) is None  # too few
    assert request_clock._growth([math.nan] * 60) is None


def test_the_last_requests_that_all_failed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_clock, "_samples", Samples(13))
    monkeypatch.setattr(request_clock, "MOST", 10**9)

    def end(*failed: bool, route: str = "GET /") -> dict[str, Any]:
        for is_failed in failed:
            cell, request = request_clock.enter()
            assert request is not None
            request.failed = is_failed
            request_clock.leave(cell, request, route)
        found: dict[str, Any] = request_clock.between(0.0, time.monotonic())["failures"]
        return found

    assert end(True, False)["failing"] is None
    assert end(True, True, True)["failing"] == 3
    assert end(False, route="GET /ping")["failing"] == 3  # a light route, which never failed


def test_the_requests_before_the_first_failure_are_counted_with_those_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = Samples(13)
    monkeypatch.setattr(request_clock, "_samples", samples)
    rows = [  # s, requests inside, whether it failed
        (0.5, 1, 0),
        (0.02, 8, 0),
        (0.03, 9, 0),
        (0.01, 8, 1),
        (0.04, 8, 0),
        (0.06, 2, 0),
        (3.5, 8, 0),  # it began before the failure
    ]
    for number, (inside_s, inside, failed) in enumerate(rows):
        samples.add(number + 1.0, inside_s, 0.0, 0.0, inside, 0.0, *[0.0] * 6, failed)
    monkeypatch.setattr(request_clock, "_routes", {"GET /": 0})

    def find(start: float) -> tuple[Any, ...]:
        found = request_clock.between(start, 9.0)["failures"]
        return tuple(found[name] for name in ("requests", "failed", *request_clock.SINCE))

    assert find(4.5) == (3, 0, None, None, None, None, None)
    assert find(3.5) == (4, 1, 2, 0.25, 2, 0.01, 0.03)
    monkeypatch.setattr(samples, "_has_removed", True)
    assert find(3.5)[:3] == (4, 1, None)


async def sold_out() -> None:
    """Raise what asyncio makes of an exhausted iterator, without the frame of this function."""
    next(iter(()))


def test_an_error_without_a_line_of_the_user_has_that_of_its_cause() -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as raised:
        sold_out().send(None)
    line = sold_out.__code__.co_firstlineno + 2
    error = raised.value.with_traceback(None)
    assert request_clock.describe(error).endswith(f" ({__file__}:{line})")
    assert request_clock.describe(ValueError("no trace")) == "ValueError: no trace"


def test_pauses_are_those_in_which_no_request_ends_and_after_which_most_end_together() -> None:
    def row(ended: float, inside_s: float) -> tuple[float, ...]:
        return (ended, inside_s, *(0.0,) * 11)

    fast = [row(n / 100, 0.001) for n in range(100)]
    # 8 requests began just after the last one and waited 0.5 s, as one of them renewed a value.
    together = [row(1.5 + n / 1000, 0.505) for n in range(8)]
    later = [row(1.52 + n / 100, 0.001) for n in range(48)]
    found = request_clock._find_pauses([*fast, *together, *later], 2.0)
    assert found["share"] == pytest.approx(0.51 / 2, abs=0.01)
    assert (found["longest_s"], found["inside"]) == (0.51, 8)
    # Slow requests that wait by themselves end one after another.
    apart = [row(1.5 + n / 8, 0.5 + n / 8) for n in range(8)]
    assert request_clock._find_pauses([*fast, *apart], 2.5)["share"] == 0
    few = request_clock._find_pauses([*fast, *together[:3], *later], 2.0)
    in_step = [row(0.2 * n + i / 1000, 0.2) for n in range(10) for i in range(8)]  # all slow
    assert few["share"] == request_clock._find_pauses(in_step, 2.0)["share"] == 0
    assert request_clock._find_pauses([], 2.0) == {"share": 0.0, "longest_s": 0.0, "inside": 0}


def test_refused_requests_are_counted_in_their_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_clock, "_refused", Samples(1))
    start = time.monotonic()
    for status in (200, 429, 429, 404):
        cell, request = request_clock.enter()
        assert request is not None
        request.note_status(status)
        request_clock.leave(cell, request, "/")
    failures = request_clock.between(start, time.monotonic())["failures"]
    assert (failures["refused"], failures["failed"]) == (2, 0)
    assert request_clock.between(0.0, start)["failures"]["refused"] == 0


def test_threads_that_run_the_same_function_are_counted_without_earlier_ones() -> None:
    is_over = threading.Event()
    timers = [threading.Timer(60.0, is_over.set) for _ in range(3)]
    waits = [threading.Thread(target=_wait_for, args=(is_over,)) for _ in range(9)]
    before = forked_threads._at_first_request
    try:
        for each in waits[:2]:
            each.start()
        forked_threads.note_first_request()
        for each in [*waits[2:], *timers]:
            each.start()
        found = forked_threads.count_alive()
        assert found is not None
        assert found["function"] == "_wait_for"
        assert 0 < found["count"] <= 7
        assert found["count"] == 9 - forked_threads._at_first_request
    finally:
        is_over.set()
        for each in timers:
            each.cancel()
        forked_threads._at_first_request = before


def _wait_for(event: threading.Event) -> None:
    event.wait(10.0)
