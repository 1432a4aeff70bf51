"""A server's report on a time window: the lag of its loop, and the time of its tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from offload.engine import server
from offload.serving.metrics import samples as _samples
from offload.serving.metrics import task_clock
from tests.http_clients import get, in_threads
from tests.installed import OWN, POOLS, one_of_each_kind
from tests.servers.chosen import FAULTS, Chosen
from tests.waiting import wait_until

LAGS = [f"loop_lag_{name}_ms" for name in ("p50", "p99", "max")]
Start = Callable[..., server.Server]
on_each = pytest.mark.parametrize("any_server", one_of_each_kind(OWN), indirect=True)
of_the_loop = pytest.mark.parametrize("any_server", ["loop"], indirect=True)


def window_report(
    running: server.Server, begin: float, end: float, more: str = ""
) -> dict[str, Any]:
    status, body = get(f"{running.url}resources/?from={begin}&to={end}{more}")
    assert status == 200
    return json.loads(body)  # type: ignore[no-any-return]


def loaded(running: server.Server, users: int) -> dict[str, Any]:
    """Send one request of each user at once; return what the server reports on that time.

    `elapsed_s` is added: how long it was. Slots were idle before it.
    """
    time.sleep(2 * task_clock.IDLE)
    began = time.monotonic()
    assert in_threads(users, lambda: get(running.url)[0]) == [200] * users
    ended = time.monotonic()
    return {**window_report(running, began, ended), "elapsed_s": ended - began}


@pytest.mark.timing
@pytest.mark.server
@of_the_loop
def test_a_held_loop_lags_for_as_long_as_it_is_held(any_server: Chosen) -> None:
    window = loaded(any_server.choose("sleep_sync"), users=4)
    p50, p99, most = (window[key] for key in LAGS)
    assert 4 * 280 * 0.1 < p50 < p99 <= most < window["elapsed_s"] * 1000 + 50
    assert most > 250


@pytest.mark.timing
def test_a_free_loop_lags_little(start: Start) -> None:
    window = loaded(start("loop", "sleep_async_split"), users=4)
    assert 0 < window["loop_lag_p50_ms"] < 30


def test_the_timer_pauses_without_requests_and_goes_on_with_them(start: Start) -> None:
    running = start("loop", "noop_sync")
    process = psutil.Process(running.process.pid)

    def switches() -> int:
        before = process.num_ctx_switches().voluntary
        time.sleep(0.3)  # a timer of 10 ms would switch 30 times
        return process.num_ctx_switches().voluntary - before

    assert get(running.url)[0] == 200
    assert wait_until(lambda: switches() < 10)
    began = time.monotonic()
    assert get(running.url)[0] == 200
    assert wait_until(
        lambda: window_report(running, began, time.monotonic())["loop_lag_p50_ms"] is not None
    )


@pytest.mark.timing
def test_a_hold_is_no_part_of_the_window_after_it(start: Start) -> None:
    running = start("loop", "sleep_sync")
    assert loaded(running, users=4)["loop_lag_max_ms"] > 250
    began = time.monotonic()
    time.sleep(0.3)
    assert window_report(running, began, time.monotonic())["loop_lag_p50_ms"] < 30


@pytest.mark.server
@pytest.mark.parametrize("noop_server", OWN, indirect=True)
def test_a_window_that_is_none_is_refused(noop_server: server.Server) -> None:
    huge = f"from=0&to={'9' * 5000}"
    infinite = ("from=0&to=inf", "from=-inf&to=inf", "from=-2&to=-1", huge)
    for query in ("from=1", "to=1", "from=2&to=1", "from=nan&to=1", "from=x&to=1", *infinite):
        status, body = get(f"{noop_server.url}resources/?{query}")
        assert (query, status, body.count(b"\n")) == (query, 400, 1)


@pytest.mark.server
@on_each
def test_the_capacity_of_a_saturated_server_is_slots_by_slot_time(any_server: Chosen) -> None:
    """All slots together cannot be busy for longer than the window is."""
    slots = 4 if any_server.name in POOLS else 1
    window = loaded(any_server.choose("sleep_sync"), users=8)
    assert (window["tasks"], window["slots"]) == (8, slots)
    assert 0.28 <= window["slot_s"] <= slots * window["elapsed_s"] / 8
    assert 0 <= window["task_cpu_s"] < 0.05


@pytest.mark.server
@on_each
def test_the_cpu_of_a_task_is_what_it_used_and_not_what_it_slept(any_server: Chosen) -> None:
    window = loaded(any_server.choose(f"{FAULTS}:spins"), users=2)
    assert window["tasks"] == 2
    assert 0.1 <= window["task_cpu_s"] < 0.3
    assert window["slot_s"] > 0.2
    assert 0 <= window["task_queued_s"] <= window["task_s"]  # the load requests queue times


@pytest.mark.server
@on_each
def test_a_failed_task_is_timed_too(any_server: Chosen) -> None:
    running = any_server.choose(f"{FAULTS}:raises")
    began = time.monotonic()
    assert get(running.url)[0] == 500
    assert window_report(running, began, time.monotonic())["tasks"] == 1


@pytest.mark.server
def test_the_time_of_an_idle_slot_starts_with_its_task(start: Start) -> None:
    running = start("threads", "sleep_short_sync", workers=1)
    began = time.monotonic()
    for _ in range(2):
        get(running.url)
        time.sleep(2 * task_clock.IDLE)
    window = window_report(running, began, time.monotonic())
    assert window["slot_s"] == window["task_s"] >= 0.05


@pytest.mark.server
@of_the_loop
def test_tasks_that_share_a_loop_have_no_slot_of_their_own(any_server: Chosen) -> None:
    window = loaded(any_server.choose("sleep_async_split"), users=3)
    assert (window["tasks"], window["slot_s"], window["task_cpu_s"]) == (3, None, None)


@pytest.mark.server
@pytest.mark.parametrize("noop_server", OWN, indirect=True)
def test_a_window_without_tasks_has_no_means(noop_server: server.Server) -> None:
    window = window_report(noop_server, 1, 2)
    assert (window["tasks"], window["slot_s"], window["task_cpu_s"]) == (0, None, None)


def test_samples_keep_the_newest_and_report_when_a_window_is_gone() -> None:
    samples = _samples.Samples(2)
    first = _samples.CHUNK  # the number of rows that are removed together
    for at in range(_samples.KEPT + first + 1):
        assert at < 10 or at % 5000 or samples.between(0, 1) == [(0, 0), (1, -1)]
        samples.add(at, -at)
    assert len(samples.rows()) == _samples.KEPT + 1
    assert samples.between(first - 1, first + 9) is None
    assert samples.between(first, first + 1) == [(first, -first), (first + 1, -first - 1)]


@pytest.mark.server
@on_each
def test_a_task_reports_its_wall_time(any_server: Chosen) -> None:
    window = loaded(any_server.choose("sleep_sync"), users=1)
    assert 0.28 <= window["task_s"] <= window["elapsed_s"]


@pytest.mark.server
@pytest.mark.parametrize("noop_server", OWN, indirect=True)
def test_a_task_reports_its_queue_time_only_on_request(noop_server: server.Server) -> None:
    window = loaded(noop_server, users=1)
    assert (window["tasks"], window["task_queued_s"]) == (1, None)


@pytest.mark.server
@pytest.mark.parametrize("any_server", ["threads"], indirect=True)
def test_each_task_of_a_window_reports_when_it_began_and_ended(any_server: Chosen) -> None:
    running = any_server.choose("sleep_short_sync")
    began = time.monotonic()
    for _ in range(2):
        get(running.url)
    one, other = window_report(running, began, time.monotonic(), "&each")["each"]
    assert began < one[0] < one[1] < other[0] < other[1] < time.monotonic()
    assert window_report(running, 1, 2, "&each")["each"] == []


@pytest.mark.server
@of_the_loop
def test_tasks_that_share_a_loop_are_not_reported_one_by_one(any_server: Chosen) -> None:
    running = any_server.choose("sleep_async_split")
    began = time.monotonic()
    loaded(running, users=3)
    assert window_report(running, began, time.monotonic(), "&each")["each"] is None
