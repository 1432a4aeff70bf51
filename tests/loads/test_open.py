"""An open loop sends at scheduled times and measures from them, however the server behaves."""

from __future__ import annotations

import asyncio
import re
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from offload import loads
from offload.loads import Arrivals, Load, LoadResult, LoadRun, Window
from offload.loads.engine.loops import arrivals
from tests.loads.conftest import SLOT_S, Server, run_here

pytestmark = pytest.mark.server
slow = pytest.mark.slow
LOAD = Load("", users=20, seconds=1.0, arrivals=Arrivals(100.0), keep_alive=True, timeout=5.0)
POISSON = Arrivals(100.0, "poisson")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def measured(server: Server, path: str, **more: object) -> LoadResult:
    return run_here(replace(LOAD, url=server.url(path), **more))  # type: ignore[arg-type]


def times(process: int = 0, seed: int = 1, **more: object) -> list[float]:
    return list(islice(arrivals(replace(LOAD, **more), seed, process, 0.0), 20_000))  # type: ignore[arg-type]


def test_uniform_arrivals_are_even_over_all_processes() -> None:
    whole = sorted(times(0, processes=2) + times(1, processes=2))
    assert whole[:4] == pytest.approx([0.0, 0.01, 0.02, 0.03])
    assert whole[39_999] == pytest.approx(399.99)


def test_poisson_arrivals_have_exponential_gaps_and_can_be_repeated() -> None:
    came = times(arrivals=POISSON)
    gaps = [b - a for a, b in pairwise(came)]
    assert statistics.mean(gaps) == pytest.approx(0.01, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.01, rel=0.05)
    assert came == times(arrivals=POISSON) != times(arrivals=POISSON, seed=2)


@pytest.mark.timing
@pytest.mark.parametrize(
    ("keep_alive", "processes"),
    [(True, 1), (False, 2), *(pytest.param(*each, marks=slow) for each in [(False, 1), (True, 2)])],
)
def test_what_is_offered_is_what_was_requested(
    server: Server, keep_alive: bool, processes: int
) -> None:
    load = replace(LOAD, url=server.url(), keep_alive=keep_alive, processes=processes)
    got = run_here(load) if processes == 1 else loads.run(load, "builtin").result
    assert got.figures.offered == pytest.approx(100, abs=1)
    assert got.figures.offered == (got.figures.completed or 0) + (
        got.figures.failed["unfinished"] or 0
    )
    assert got.figures.rate == pytest.approx(100, rel=0.2)
    assert 0 <= (got.figures.response.late_p99_s or 0) <= (got.figures.response.late_max_s or 0) < 1


def test_every_offer_is_counted_once_when_the_server_is_too_slow() -> None:
    with Server() as own:  # it stays busy with what was given up
        got = measured(own, "/pool", timeout=1.0)
    assert got.figures.offered == (got.figures.completed or 0) + sum(
        n or 0 for n in got.figures.failed.values()
    )
    assert (got.figures.failed["timeout"] or 0) > 30
    response = got.figures.response  # a timeout is noticed up to 0.1 s late
    assert 1.0 == response.at_least_s <= (response.p99_s or 0) < 1.3


def test_a_queue_that_times_out_at_once_does_not_end_the_load() -> None:
    with Server() as own:
        got = measured(own, "/pool", users=1, arrivals=Arrivals(5000.0), timeout=0.4)
    assert (got.problem, got.figures.rate_how) == (None, "residence-spread")
    assert (got.figures.failed["timeout"] or 0) > 1000


def test_waiting_for_a_connection_is_in_the_time(server: Server) -> None:
    before, slots = server.accepts["/pool"], len(server.slots_s)
    got = measured(server, "/pool", users=1, arrivals=Arrivals(20.0), seconds=0.45)
    assert server.accepts["/pool"] - before == 1
    assert len(server.slots_s) - slots == 9
    least = (
        sum(server.slots_s[slots:]) - 8 / 20
    )  # the ninth is asked for after 8 of 20 parts of 1 s
    assert least * 0.99 < (got.figures.response.max_s or 0) < 3 * least


def test_the_wait_for_a_connection_is_separate_from_the_servers_time() -> None:
    """Nine arrivals in 0.4 s share one connection to a server that takes 0.14 s for each."""
    with Server() as own:
        got = measured(own, "/pool", users=1, arrivals=Arrivals(20.0), seconds=0.45)
    response, [flag] = got.figures.response, got.notes
    least = sum(own.slots_s[:8]) - 8 / 20  # the last one waits for eight others
    assert least * 0.99 < (response.waited_max_s or 0) == response.waited_p99_s < 3 * least
    assert (response.max_s or 0) > (response.waited_max_s or 0) + SLOT_S * 0.99
    assert flag.kind == "connections"
    assert re.match(
        r"8 of 9 requests waited for one of 1 connections, the longest [\d.]+ s", str(flag.message)
    )
    assert "users" in flag.remedy


def test_a_load_with_enough_connections_did_not_wait_for_them(server: Server) -> None:
    got = measured(server, "/", users=400)  # enough for a pause of some seconds
    assert (got.figures.response.waited_max_s, got.notes) == (0.0, ())
    assert measured(server, "/", arrivals=None).figures.response.waited_max_s is None


def test_requests_that_never_got_a_connection_waited_until_their_timeout() -> None:
    with Server() as own:
        got = measured(own, "/hang", users=1, arrivals=Arrivals(50.0), seconds=0.5, timeout=0.5)
    assert 0.5 <= (got.figures.response.waited_max_s or 0) < 1.5


def test_a_connection_is_opened_only_when_none_is_idle(server: Server) -> None:
    before = server.accepts["/"]
    measured(server, "/", arrivals=Arrivals(20.0))
    assert server.accepts["/"] - before < 5


def test_a_warm_up_is_not_offered(server: Server) -> None:
    assert measured(server, "/", window=Window(0.5)).figures.offered == pytest.approx(100, abs=1)


@contextmanager
def stalling(period: float, stall: float) -> Iterator[str]:
    """Yield the address of a server that responds at once except in `stall` s of each `period`."""
    stop, ready, ports = threading.Event(), threading.Event(), []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(OK)
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        while not stop.is_set():
            for _ in range(round((period - stall) / 0.1)):
                await asyncio.sleep(0 if stop.is_set() else 0.1)
            stop.wait(stall)  # blocks the loop
        server.close()
        await asyncio.sleep(0.1)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield f"http://127.0.0.1:{ports[0]}/"
    finally:
        stop.set()
        thread.join(10)


def by_each_model(period: float, stall: float) -> tuple[LoadRun, LoadRun]:
    """Load a server that stalls by an open loop, then by a closed one."""
    with stalling(period, stall) as url:
        load = replace(LOAD, url=url, users=200, seconds=2 * period)
        opened = loads.run(load, "builtin")
        whole = 1.5 * period  # it has one stall from its start to its end
        closed = loads.run(replace(load, users=1, arrivals=None, seconds=whole), "builtin")
    assert (opened.model, closed.model) == ("open", "closed")
    return opened, closed


@pytest.mark.slow
def test_a_stall_is_seen_by_an_open_loop_and_hidden_by_a_closed_one() -> None:
    opened, closed = (ran.result for ran in by_each_model(2.0, 0.4))
    assert 0.9 * 0.4 < (opened.figures.response.p99_s or 0) < 4
    assert (closed.figures.response.max_s or 0) > 0.9 * 0.4  # its one user met it
    assert (closed.figures.response.p99_s or 1) < 0.1


@pytest.mark.slow
@pytest.mark.timing
def test_an_open_loop_measures_a_stall_exactly() -> None:
    opened, closed = (ran.result for ran in by_each_model(5.0, 1.0))
    assert 0.90 < (opened.figures.response.p99_s or 0) < 1.02
    assert (closed.figures.response.p99_s or 1) < 0.05
