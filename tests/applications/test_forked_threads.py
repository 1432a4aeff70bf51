"""Threads that an application starts before its workers are forked are named: workers lack them."""

from __future__ import annotations

import time

import pytest

from offload.engine import server_reports
from tests.applications.conftest import Serve
from tests.http_clients import get
from tests.waiting import wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]


def lost_threads(serve: Serve, app: str, **settings: object) -> list[dict[str, object]]:
    running = serve("gunicorn_gthread", app, processes=2, workers=2, **settings)
    assert get(running.url)
    found = server_reports.report_window(running.facts, running.url, 0.0, time.monotonic())
    return list(found["application"]["threads"]["lost"])


@pytest.mark.parametrize("preload", ["yes", "freeze"])
def test_threads_of_a_preloaded_application_are_lost(preload: str, serve: Serve) -> None:
    found = lost_threads(serve, "forked:lost()", preload=preload)
    assert [(each["function"], each["file"], each["name"]) for each in found[:2]] == [
        ("wait", "forked.py", None),
        ("Feed.run", "forked.py", None),
    ]
    assert [(each["is_pool"], each["name"]) for each in found[2:]] == [(True, "quotes_0")]
    assert isinstance(found[0]["line"], int) and found[0]["line"] > 1


def test_threads_that_each_worker_starts_again_or_that_have_ended_are_not(serve: Serve) -> None:
    assert lost_threads(serve, "forked:started()", preload="yes") == []


def test_without_preload_each_worker_has_its_own_threads(serve: Serve) -> None:
    assert lost_threads(serve, "forked:lost()") == []


@pytest.mark.parametrize(
    ("app", "preload", "forks"),
    [("forked:forking", "no", 4), ("forked:forking", "yes", 4), ("forked:app", "no", 0)],
)
def test_forks_of_requests_beside_threads_are_counted(
    app: str, preload: str, forks: int, serve: Serve
) -> None:
    """As twice the smaller number of the two halves of the window."""
    running = serve("gunicorn_gthread", app, workers=2, preload=preload)
    times = [time.monotonic()]
    for number in (2, 3):
        for _ in range(number):
            get(running.url)
        times.append(time.monotonic())
    window = 2 * times[1] - times[2], times[2]  # its middle is between them
    found = server_reports.report_window(running.facts, running.url, *window)
    threads = found["application"]["threads"]
    assert threads["forks"] == forks
    at = threads["forked_at"]
    assert (at is not None and at["file"].endswith("forked.py")) == (forks > 0)


@pytest.mark.parametrize(("app", "threads"), [("stuck", ["keep"]), ("free", [])])
def test_threads_beside_which_a_pool_was_forked_are_named_once_a_process_of_it_is_stuck(
    app: str, threads: list[str], serve: Serve
) -> None:
    running = serve("gunicorn_gthread", f"forked:{app}", workers=2)
    assert get(running.url)[0] == 200

    def beside() -> list[dict[str, object]]:
        found = server_reports.report_window(running.facts, running.url, 0.0, time.monotonic())
        return list(found["application"]["threads"]["beside"])

    # The process may not have come to the lock yet.
    assert wait_until(lambda: len(beside()) == len(threads))
    assert [(each["function"], each["file"]) for each in beside()] == [
        (name, "forked.py") for name in threads
    ]


def test_without_threads_of_the_user_those_of_pools_are_named(serve: Serve) -> None:
    running = serve("gunicorn_gthread", "forked:stuck_in_pool", workers=2)
    assert get(running.url)[0] == 200

    def beside() -> list[dict[str, object]]:
        found = server_reports.report_window(running.facts, running.url, 0.0, time.monotonic())
        return list(found["application"]["threads"]["beside"])

    assert wait_until(lambda: bool(beside()))
    assert all(each["is_pool"] for each in beside())
    assert "holders_0" in [each["name"] for each in beside()]
