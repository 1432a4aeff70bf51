"""Warm-up, window and tail are one continuous load; only the window is measured."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from offload import loads
from offload.loads import Load, LoadResult, Window
from offload.loads.engine.figures import histogram_quantile
from offload.loads.engine.loops import ClosedLoop
from tests.loads.conftest import SLOT_S, Server, run_here

pytestmark = pytest.mark.server
LOAD = Load("", users=9, seconds=0.5, window=Window(0.1), timeout=5.0)


def measured(server: Server, path: str, **more: object) -> LoadResult:
    return run_here(replace(LOAD, url=server.url(path), **more))  # type: ignore[arg-type]


def test_the_window_is_what_was_requested_and_its_rate_the_pools(server: Server) -> None:
    began, before = time.monotonic(), len(server.slots_s)
    got = measured(server, "/pool", seconds=1.5)
    assert got.figures.rate_how == "residence-spread"
    assert got.figures.window_s == pytest.approx(1.5, abs=0.5)
    assert (
        began < (got.figures.window_began or 0) < (got.figures.window_ended or 0) < time.monotonic()
    )
    assert got.figures.rate == pytest.approx(server.pool_rate(before), rel=0.1)


def test_the_warm_up_waits_for_every_user(server: Server) -> None:
    began = time.monotonic()
    got = measured(server, "/pool")
    assert (got.figures.window_began or 0) - began >= 3 * SLOT_S - 0.01


def test_a_window_that_does_not_wait_counts_whole_responses_if_users_are_left(
    server: Server,
) -> None:
    window = Window(0.1, completions=3, waits_s=0.0)
    began = time.monotonic()
    got = measured(server, "/pool", window=window)
    assert (got.figures.window_began or 0) - began < 3 * SLOT_S
    assert got.figures.rate_how != "residence-spread"
    enough = measured(server, "/pool", window=replace(window, waits_s=5.0))
    assert enough.figures.rate_how == "residence-spread"
    assert not (enough.figures.failed or {}).get("unfinished")


def test_cycles_and_completions_lengthen_the_window(server: Server) -> None:
    assert (measured(server, "/pool", window=Window(0.1, cycles=2)).figures.completed or 0) >= 18
    assert (
        measured(server, "/pool", window=Window(0.1, completions=12)).figures.completed or 0
    ) >= 12


def test_a_window_is_ended_by_its_cap_and_reports_it(server: Server) -> None:
    got = measured(server, "/pool", window=Window(0.1, completions=1000, longest=1.0))
    assert 0.99 < (got.figures.window_s or 0) < 10  # a thousand take 35 s
    assert str(got.notes[0]).startswith("window: ended after 1 s with ")


def test_the_histogram_has_every_time(server: Server) -> None:
    got = measured(server, "/pool")
    assert sum((got.figures.response.histogram or {}).values()) == got.figures.completed
    assert histogram_quantile(got.figures.response.histogram or {}, 1.0) == pytest.approx(
        got.figures.response.max_s, rel=0.0101
    )


def how_busy(server: Server) -> tuple[float, float]:
    """Return how busy the tool is with few requests and with as many as it can send."""
    load = replace(LOAD, url=server.url("/pool"))
    idle = loads.run(load, "builtin").result  # as a process of its own, without the server's CPU
    load = replace(LOAD, url=server.url(), keep_alive=True)
    busy = loads.run(load, "builtin").result
    return idle.driver_busy or 0, busy.driver_busy or 0


@pytest.mark.timing
def test_the_tool_reports_how_busy_it_was(server: Server) -> None:
    idle, busy = how_busy(server)
    assert 0 < idle < 0.3
    assert idle < busy < 1.1


@pytest.mark.slow
@pytest.mark.timing
def test_a_tool_that_has_a_core_reports_that_it_was_busy(server: Server) -> None:
    idle, busy = how_busy(server)
    assert 0 < idle < 0.3 < busy < 1.1


def test_nothing_is_left_unfinished(server: Server) -> None:
    got = measured(server, "/pool")
    assert (got.figures.failed["unfinished"], got.figures.failed["timeout"]) == (0, 0)


def test_users_that_rest_after_the_window_leave_the_server_no_work(server: Server) -> None:
    got = measured(server, "/pool", window=Window(0.1, refills=False))
    assert not server.is_busy  # as it is for 0.3 s and more behind users that went on asking
    assert got.figures.failed["unfinished"] == 0


def test_a_user_that_thinks_when_all_are_to_rest_asks_no_more(server: Server) -> None:
    async def load() -> ClosedLoop:
        closed = ClosedLoop(Load(server.url(), users=1, think=1.0))
        closed.loop = asyncio.get_running_loop()
        closed.start(time.monotonic())
        async with asyncio.timeout(10):
            while not closed.is_warm():
                await asyncio.sleep(0.005)
            closed.stop_sending()
            await closed.wait(10)
        return closed

    closed = asyncio.run(load())
    assert (closed.stopped, len(closed.samples.ended)) == (True, 1)


def test_what_is_in_flight_at_the_end_and_fails_is_counted(server: Server) -> None:
    got = measured(server, "/first", users=1, timeout=1.0)
    assert (
        got.figures.completed,
        got.figures.failed["timeout"],
        got.figures.failed["unfinished"],
    ) == (0, 1, 0)
    assert (got.figures.rate, got.figures.availability) == (0.0, 0.0)


@pytest.mark.slow
def test_an_early_end_has_the_rate_of_a_count(server: Server) -> None:
    got = measured(server, "/reset")
    assert "stopped after" in (got.problem or "")
    assert got.figures.rate_how == "count / elapsed"
    assert (got.figures.failed["reset"] or 0) >= 1000
