"""Every server that can serve an application serves it unchanged, and reports on each worker."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from offload.engine import load_phase, server, server_reports, workload
from offload.engine.record import Baseline, CaseFacts
from offload.errors import StartError, UsageError, UserError
from offload.registry import catalog
from offload.suites import Request
from tests.applications.conftest import OF_KIND, Serve
from tests.http_clients import get, in_threads
from tests.installed import MISSING
from tests.waiting import wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]
EVERY = [(name, "pure:app") for name in OF_KIND["asgi"]] + [
    (name, "pure:wsgi") for name in OF_KIND["wsgi"]
]
every = pytest.mark.parametrize(("name", "app"), EVERY)
asgi = pytest.mark.parametrize("name", OF_KIND["asgi"])
wsgi = pytest.mark.parametrize("name", OF_KIND["wsgi"])


def send(url: str, method: str, path: str, body: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@every
def test_it_answers_on_its_own_routes_alone(name: str, app: str, serve: Serve) -> None:
    url = serve(name, app).url
    assert get(url)[1].startswith(b"app")
    assert get(f"{url}resources/")[1].startswith(b"app")  # not with a report of ours
    assert get(f"{url}none") == (404, b"nothing here")
    assert get(f"{url}stream") == (200, b"abc")
    said = send(url, "POST", "/echo", "two", **{"X-Token": "secret"})
    assert said == (200, b"POST two secret")


@every
def test_hosts_are_checked_only_on_request(name: str, app: str, serve: Serve) -> None:
    assert send(serve(name, app).url, "GET", "/", "", Host="shop.test")[0] == 200
    url = serve(name, app, allowed_hosts="shop.test").url
    said = [
        send(url, "GET", "/", "", Host=host)[0] for host in ("shop.test", "localhost", "b.test")
    ]
    assert said == [200, 200, 421]


@asgi
def test_the_lifespan_runs_and_its_state_reaches_requests(name: str, serve: Serve) -> None:
    assert get(serve(name, "pure:create_app()").url) == (200, b"app yes")


@asgi
def test_an_application_without_a_lifespan_is_served(name: str, serve: Serve) -> None:
    assert get(serve(name, "pure:bare").url) == (200, b"bare")


@asgi
def test_websockets_pass_through(name: str, serve: Serve) -> None:
    address = urlsplit(serve(name, "pure:app").url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as client:
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET /ws HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        client.sendall(head.encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 101")
        client.sendall(b"\x81\x82" + bytes(4) + b"hi")  # a masked text frame, of mask 0
        said = b""
        while b"echo hi" not in said:
            part = client.recv(1000)
            assert part
            said += part


@wsgi
def test_write_and_file_wrappers_are_the_servers(name: str, serve: Serve) -> None:
    url = serve(name, "pure:wsgi").url
    if name != "granian_wsgi":  # its start_response returns no write callable
        assert get(f"{url}write") == (200, b"written, returned")
        assert b"without a framework" in get(f"{url}file")[1]


@every
def test_each_process_reports_its_clocks_and_its_gil(name: str, app: str, serve: Serve) -> None:
    settings = {"processes": 2} if "processes" in catalog.find_server(name).settings else {}
    running = serve(name, app, **settings)
    began = time.monotonic()
    path = "block" if app == "pure:app" else "cpu"
    for _ in range(3):
        get(f"{running.url}{path}")
    found = reported(running, began, requests=3)
    own = found["application"]
    kind = catalog.find_server(name).serves
    assert (own["kind"], own["requests"], own["failing"]["error"]) == (kind, 3, None)
    assert own["processes"] == (4 if name == "gunicorn_sync" else settings.get("processes", 1))
    [route] = own["routes"]
    assert (route["route"], route["requests"]) == (f"GET /{path}", 3)
    assert len(found["each"]) == 3
    assert own["memory"]["pss_mib"] > own["memory"]["private_mib"] > 1
    if kind == "asgi":
        assert route["longest_s"] >= 0.1
        assert found["loop_lag_max_ms"] > 50
    else:
        assert route["cpu_s"] > 0
    gils = server_reports.with_gils(running.facts)["worker_gil_addresses"]
    assert {gil["gil_address"]["pid"] for gil in gils} == {gil["pid"] for gil in gils}
    assert found["facts"]["gil_enabled"] is True


@every
def test_the_gil_of_single_requests_is_sampled(name: str, app: str, serve: Serve) -> None:
    running = serve(name, app)
    path = "/block" if app == "pure:app" else "/cpu"
    case = CaseFacts("id", name, f"app={app}", "fab", 2)
    load = workload.alone(f"{running.url[:-1]}{path}", case, Baseline(), Request(path))
    alone = load_phase.measure_single_request(load, running.facts, Baseline(alone_s=0.02))
    assert alone.task_s is not None
    if alone.hold.share is not None:  # else no core was free for the sampler
        is_holding = path == "/cpu"
        assert (alone.hold.share > 0.4) == is_holding, alone.hold


@every
def test_an_exception_is_reported_with_its_line(name: str, app: str, serve: Serve) -> None:
    running = serve(name, app)
    assert get(f"{running.url}bad")[0] == 500
    error = server_reports.last_error(running.facts)
    assert error is not None
    assert error.startswith("ValueError: no such quote (") and "pure.py:" in error


@asgi
def test_a_failed_lifespan_is_the_error_of_the_server(name: str, serve: Serve) -> None:
    with pytest.raises(StartError) as caught:
        serve(name, "pure:failing")
    assert str(caught.value) == "pure:failing failed in its lifespan startup: no database: fix it"


@every
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("broken:app", r"importing broken raised NameError: .*broken\.py:4\): fix it"),
        ("pure:absent", "no 'absent' in pure"),
        ("pure:number", "it is an object of type int"),
        ("no_such:app", "no module 'no_such'"),
    ],
)
def test_what_cannot_be_imported_is_the_error_of_the_server(
    name: str, app: str, wrong: str, message: str, serve: Serve
) -> None:
    with pytest.raises(UsageError, match=message):
        serve(name, wrong)


@every
def test_the_other_kind_is_refused_with_the_servers_that_serve_it(
    name: str, app: str, serve: Serve
) -> None:
    other = "pure:wsgi" if app == "pure:app" else "pure:app"
    with pytest.raises(UsageError, match=r"and this server serves .*: use one of"):
        serve(name, other)


@every
def test_the_stop_loses_no_request(name: str, app: str, serve: Serve) -> None:
    running = serve(name, app)
    path = "wait" if app == "pure:app" else "cpu"
    assert in_threads(3, lambda: get(f"{running.url}{path}")[0]) == [200] * 3
    server.request_stop(running)
    assert wait_until(lambda: running.process.poll() is not None, 15)
    server.stop(running)
    assert (running.process.returncode, running.left) == (0, False)
    assert "completed" not in running.ending


def test_a_server_without_its_package_reports_it_and_not_that_the_application_fails() -> None:
    missing = [name for name, _ in EVERY if MISSING[name]]
    if not missing:
        pytest.skip("every server is installed")
    from offload.suites import Case

    with pytest.raises(UserError, match="needs"):
        server.stop(server.start(Case(missing[0], "app=pure:app"), {}))


def reported(running: server.Server, began: float, requests: int) -> Any:
    """Return a server's report, once it has the clocks of a number of requests.

    A client may have its response before the application has returned.
    """
    found: list[Any] = []

    def is_complete() -> bool:
        now = time.monotonic()
        found.append(server_reports.report_window(running.facts, running.url, began, now, True))
        return bool(found[-1]["application"]["requests"] >= requests)

    assert wait_until(is_complete, 10), found[-1]
    return found[-1]


def clocked_routes(running: server.Server, *paths: str) -> set[str]:
    """Request paths one after another; return the routes that the server reports."""
    began = time.monotonic()
    for path in paths:
        assert get(f"{running.url}{path}")[0] == 200, path
    found = reported(running, began, requests=len(paths))
    return {route["route"] for route in found["application"]["routes"]}
