"""An application of Tornado is served unchanged, by one process or several, with its clocks."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from offload.engine import calling_process, server, server_reports
from offload.errors import UsageError
from offload.suites import Case, Request
from tests.applications import APPS
from tests.applications.conftest import OF_KIND, Serve
from tests.http_clients import get
from tests.rounds import measure_window
from tests.waiting import wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]
every = pytest.mark.parametrize("name", OF_KIND["tornado"])


def reported(running: server.Server, began: float) -> Any:
    """Return the report of the application since a time, once it is complete."""
    found: Any = {}

    def is_complete() -> bool:
        nonlocal found
        found = server_reports.report_window(running.facts, running.url, began, time.monotonic())
        return bool(found["application"]["requests"])

    assert wait_until(is_complete)
    return found


@every
def test_it_answers_on_its_own_routes_alone(name: str, serve: Serve) -> None:
    url = serve(name, "web:app").url
    assert get(f"{url}quote/7") == (200, b"quote 7")
    assert [get(f"{url}{path}")[0] for path in ("", "resources/", "fail")] == [404, 404, 500]
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    connection.request("POST", "/echo", "two ", {"X-Token": "secret"})
    assert connection.getresponse().read() == b"two secret"
    connection.close()


@every
def test_each_process_reports_its_clocks(name: str, serve: Serve) -> None:
    running = serve(name, "web:app", **({"processes": 2} if name == "prefork" else {}))
    began = time.monotonic()
    for number in (7, 8):
        get(f"{running.url}quote/{number}")
    own = reported(running, began)["application"]
    assert own["kind"] == "tornado"
    assert own["processes"] == (2 if name == "prefork" else 1)
    assert [route["route"] for route in own["routes"]] == ["GET /quote/{}"]
    assert own["failing"]["error"] is None
    gils = server_reports.with_gils(running.facts)
    assert gils.get("gil_address") or len(gils["worker_gil_addresses"]) == 2


def test_what_blocks_the_loop_is_timed(serve: Serve) -> None:
    running = serve("loop", "web:app")
    began = time.monotonic()
    get(f"{running.url}block")
    found = reported(running, began)
    [route] = found["application"]["routes"]
    assert route["longest_s"] >= 0.1
    assert found["loop_lag_max_ms"] > 50


def test_work_after_the_response_is_not_part_of_it(serve: Serve) -> None:
    running = serve("loop", "web:app")
    began = time.monotonic()
    assert get(f"{running.url}later") == (200, b"now")
    [route] = reported(running, began)["application"]["routes"]
    assert route["inside_s"] < 0.1 <= route["steps"]["after_s"]


def test_its_failures_are_reported_with_their_line(serve: Serve) -> None:
    running = serve("loop", "web:app")
    began = time.monotonic()
    get(f"{running.url}fail")
    own = reported(running, began)["application"]
    assert own["failing"]["error"].startswith("ValueError: no quote (")
    assert "web.py" in own["failing"]["error"]
    assert own["failing"]["processes"][0]["failed"] == 1


@every
def test_a_factory_is_called_while_the_loop_runs(name: str, serve: Serve) -> None:
    assert get(f"{serve(name, 'web:create_app()').url}quote/7") == (200, b"quote 7")


def test_a_factory_that_needs_the_loop_is_measured_and_a_refused_request_is_no_error_of_ours(
    serve: Serve,
) -> None:
    case = Case("loop", "app=web:create_app()", 2, path=str(APPS), request=Request("/quote/7"))
    assert calling_process.find_application(case.task, None, case.path).kinds == ("tornado",)
    record = measure_window(case)
    assert record.problem is None
    assert record.application.routes[0].route == "GET /quote/{}"
    running = serve("loop", "web:app")
    began = time.monotonic()
    connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=20)
    connection.request("BREW", "/quote/7")
    assert connection.getresponse().status == 405
    connection.close()
    own = reported(running, began)["application"]
    assert own["failing"]["error"] is None
    assert own["failing"]["processes"][0]["failed"] == 0


def test_what_the_application_put_around_its_handlers_remains(serve: Serve) -> None:
    url = serve("loop", "web_watched:app").url
    assert get(f"{url}quote/7") == (200, b"quote 7")
    assert get(f"{url}seen") == (200, b"2")


@every
def test_a_long_response_reaches_a_slow_client_after_a_stop_signal(name: str, serve: Serve) -> None:
    running = serve(name, "web:app")
    with socket.create_connection(
        ("127.0.0.1", urlsplit(running.url).port or 0), timeout=20
    ) as client:
        client.sendall(b"GET /long HTTP/1.0\r\n\r\n")
        received = client.recv(1000)
        running.process.terminate()
        time.sleep(0.6)
        while part := client.recv(1 << 20):
            received += part
    assert len(received) > 5_000_000
    assert running.process.wait(20) == 0


@every
def test_a_request_in_progress_is_finished_after_a_stop_signal(name: str, serve: Serve) -> None:
    running = serve(name, "web:app")
    answers: list[tuple[int, bytes]] = []
    client = threading.Thread(target=lambda: answers.append(get(f"{running.url}wait")))
    client.start()
    time.sleep(0.2)
    running.process.terminate()
    client.join(20)
    assert answers == [(200, b"waited")]
    assert running.process.wait(20) == 0


@pytest.mark.parametrize(
    ("name", "app", "settings", "words"),
    [
        ("hypercorn", "web:app", {}, "is an application of Tornado, and this server serves ASGI"),
        ("loop", "pure:app", {}, "is an ASGI application, and this server serves Tornado"),
        ("prefork", "pure:wsgi", {}, "is a WSGI application, and this server serves Tornado"),
        ("loop", "web:app", {"protect": "yes"}, "protect= and health= are for tasks"),
        ("loop", "web:app", {"allowed_hosts": "shop.test"}, "allowed_hosts="),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    name: str, app: str, settings: dict[str, Any], words: str, serve: Serve
) -> None:
    with pytest.raises(UsageError) as raised:
        serve(name, app, **settings)
    assert words in raised.value.what
    assert raised.value.remedy
