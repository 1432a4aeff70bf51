"""What a server tells of a window of time: the lag of its loop, and what its tasks took."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import server
from servers import _samples
from tests.asking import get, together
from tests.installed import POOLS, SERVERS

FAULTS = Path(__file__).parent / "faults.py"
LAGS = [f"loop_lag_{name}_ms" for name in ("p50", "p99", "max")]
Start = Callable[..., server.Server]


def told(running: server.Server, begin: float, end: float) -> dict[str, Any]:
    status, body = get(f"{running.url}resources/?from={begin}&to={end}")
    assert status == 200
    return json.loads(body)  # type: ignore[no-any-return]


def loaded(running: server.Server, users: int) -> dict[str, Any]:
    """Have each user ask once, all together, and give what the server tells of that time."""
    began = time.monotonic()
    assert together(users, lambda: get(running.url)[0]) == [200] * users
    return told(running, began, time.monotonic())


def test_a_held_loop_lags_for_as_long_as_it_is_held(start: Start) -> None:
    window = loaded(start("loop", "sleep_sync"), users=4)
    p50, p99, most = (window[key] for key in LAGS)
    assert 4 * 280 * 0.2 < p50 < p99 <= most < 4 * 280 * 3
    assert most > 250


def test_a_free_loop_lags_little(start: Start) -> None:
    window = loaded(start("loop", "sleep_async_split"), users=4)
    assert 0 < window["loop_lag_p50_ms"] < 30


def test_a_hold_is_no_part_of_the_window_after_it(start: Start) -> None:
    running = start("loop", "sleep_sync")
    assert loaded(running, users=4)["loop_lag_max_ms"] > 250
    began = time.monotonic()
    time.sleep(0.3)
    assert told(running, began, time.monotonic())["loop_lag_p50_ms"] < 30


@pytest.mark.parametrize("name", SERVERS)
def test_the_last_line_has_the_lag_of_a_server_with_a_loop(name: str, start: Start) -> None:
    running = start(name, "noop_sync")
    time.sleep(0.1)
    server.stop(running)
    assert [running.ending[key] is None for key in LAGS] == [name == "sync"] * 3


@pytest.mark.parametrize("name", ["sync", "loop"])
@pytest.mark.parametrize("query", ["from=1", "to=1", "from=2&to=1", "from=nan&to=1", "from=x&to=1"])
def test_a_window_that_is_none_is_refused(name: str, query: str, start: Start) -> None:
    status, body = get(f"{start(name, 'noop_sync').url}resources/?{query}")
    assert (status, body.count(b"\n")) == (400, 1)


@pytest.mark.parametrize("name", SERVERS)
def test_the_capacity_of_a_saturated_server_is_slots_by_slot_time(name: str, start: Start) -> None:
    slots = 4 if name in POOLS else 1
    window = loaded(start(name, "sleep_sync", **({"workers": 4} if slots == 4 else {})), users=8)
    assert (window["tasks"], window["slots"]) == (8, slots)
    assert 0.28 <= window["slot_s"] < 0.28 * 1.5
    assert 0 <= window["task_cpu_s"] < 0.05


@pytest.mark.parametrize("name", SERVERS)
def test_the_cpu_of_a_task_is_what_it_used_and_not_what_it_slept(name: str, start: Start) -> None:
    window = loaded(start(name, f"{FAULTS}:spins"), users=2)
    assert window["tasks"] == 2
    assert 0.1 <= window["task_cpu_s"] < 0.3
    assert window["slot_s"] > 0.2


@pytest.mark.parametrize("name", SERVERS)
def test_a_failed_task_is_timed_too(name: str, start: Start) -> None:
    running = start(name, f"{FAULTS}:raises")
    began = time.monotonic()
    assert get(running.url)[0] == 500
    assert told(running, began, time.monotonic())["tasks"] == 1


def test_a_slot_that_was_idle_begins_with_its_task(start: Start) -> None:
    running = start("threads", "sleep_sync", workers=1)
    began = time.monotonic()
    for _ in range(2):
        get(running.url)
        time.sleep(0.5)
    assert 0.28 <= told(running, began, time.monotonic())["slot_s"] < 0.28 * 1.5


def test_tasks_that_share_a_loop_have_no_slot_of_their_own(start: Start) -> None:
    window = loaded(start("loop", "sleep_async_split"), users=3)
    assert (window["tasks"], window["slot_s"], window["task_cpu_s"]) == (3, None, None)


@pytest.mark.parametrize("name", SERVERS)
def test_a_window_without_tasks_has_no_means(name: str, start: Start) -> None:
    window = told(start(name, "noop_sync"), 1, 2)
    assert (window["tasks"], window["slot_s"], window["task_cpu_s"]) == (0, None, None)


def test_samples_keep_the_newest_and_say_when_a_window_is_gone() -> None:
    samples = _samples.Samples(2)
    for at in range(_samples.KEPT + 10):
        samples.add(at, -at)
    assert len(samples.rows()) == _samples.KEPT
    assert samples.between(9, 20) is None
    assert samples.between(10, 12) == [(10, -10), (11, -11), (12, -12)]


@pytest.mark.parametrize("name", SERVERS)
def test_a_task_tells_its_wall_time_and_none_its_queue_unasked(name: str, start: Start) -> None:
    window = loaded(start(name, "sleep_sync"), users=1)
    assert 0.28 <= window["task_s"] < 0.28 * 1.5
    assert window["task_queued_s"] is None


@pytest.mark.parametrize("name", SERVERS)
def test_a_task_that_is_asked_tells_how_long_it_queued(
    name: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_QUEUE_CLOCK", "1")
    window = loaded(start(name, f"{FAULTS}:spins"), users=2)
    assert 0 <= window["task_queued_s"] <= window["task_s"]


def test_each_task_of_a_window_tells_when_it_began_and_ended(start: Start) -> None:
    running = start("threads", "sleep_short_sync")
    began = time.monotonic()
    for _ in range(2):
        get(running.url)
    _, body = get(f"{running.url}resources/?from={began}&to={time.monotonic()}&each")
    (one, other), ended = json.loads(body)["each"], time.monotonic()
    assert began < one[0] < one[1] < other[0] < other[1] < ended
    assert json.loads(get(f"{running.url}resources/?from=1&to=2&each")[1])["each"] == []


def test_tasks_that_share_a_loop_are_not_told_one_by_one(start: Start) -> None:
    running = start("loop", "sleep_async_split")
    loaded(running, users=3)
    assert json.loads(get(f"{running.url}resources/?from=1&to=9e9&each")[1])["each"] is None
