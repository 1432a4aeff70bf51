"""Only requests for a loopback name, or for an allowed one, reach a task or the facts."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from offload.engine import server
from offload.errors import UsageError
from offload.serving.protection import limits
from tests.installed import KINDS
from tests.servers.lifecycle.command_line import begin, wait_for_end

pytestmark = pytest.mark.server

OURS = ("127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8000", None)
OTHERS = ("shop.test", "shop.test:8000", "localhost.shop.test", "127.0.0.1.shop.test", "[::2]")


def respond(running: server.Server, host: str | None, path: str = "/") -> tuple[int, bytes]:
    """Return the status and the body of the response to a request with a Host header."""
    address = ("127.0.0.1", int(str(running.facts["port"])))
    header = "" if host is None else f"Host: {host}\r\n"
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(f"GET {path} HTTP/1.0\r\n{header}\r\n".encode())
        with client.makefile("rb") as stream:
            head, _, body = stream.read().partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_another_host_gets_neither_the_task_nor_the_facts(noop_server: server.Server) -> None:
    for host in OTHERS:
        for path in ("/", "/resources/", "/none"):
            status, body = respond(noop_server, host, path)
            assert (host, path, status, body.count(b"\n")) == (host, path, 421, 1)
            assert b"allowed_hosts=" in body


def test_another_host_gets_neither_the_health_nor_the_metrics(start: Any) -> None:
    running = start("loop", "noop_sync", health="yes")
    for path in ("/healthz", "/readyz", "/metrics"):
        status, body = respond(running, "shop.test", path)
        assert (path, status, body.count(b"\n")) == (path, 421, 1)
        assert respond(running, "localhost", path)[0] in (200, 501)  # 501 without its package


def test_loopback_names_are_served_with_and_without_a_port(noop_server: server.Server) -> None:
    for host in OURS:
        assert respond(noop_server, host) == (200, b"ok")
    assert respond(noop_server, "localhost", "/resources/")[0] == 200


TARGETS = (
    ("http://127.0.0.1:8888/", "shop.test", 200),
    ("HTTP://LOCALHOST", "shop.test", 200),
    ("http://localhost?a=b", "localhost", 200),
    ("http://[::1]/resources/", None, 200),
    ("http://localhost/none", "localhost", 404),
    ("http:///", "localhost", 404),
    ("http://shop.test/", "localhost", 421),
    ("http://me@localhost/", "localhost", 421),
)


UNPARSED = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("uvicorn_h11", "hypercorn", "gunicorn_asgi")
]


@pytest.mark.parametrize("noop_server", [*KINDS, *UNPARSED], indirect=True)
def test_the_host_in_the_target_replaces_that_of_the_header(noop_server: server.Server) -> None:
    found = [respond(noop_server, host, target)[0] for target, host, _ in TARGETS]
    assert found == [status for _, _, status in TARGETS]


@pytest.mark.parametrize("name", ["sync", "loop", "hypercorn", "uvicorn_workers", "gunicorn_sync"])
def test_further_names_can_be_allowed(name: str, start: Any) -> None:
    running = start(name, "noop_sync", allowed_hosts="shop.test+api.test")
    found = [respond(running, host)[0] for host in ("Shop.test:80", "api.test", "test", "[::1]")]
    assert found == [200, 200, 421, 200]


@pytest.mark.parametrize("text", ["shop.test:80", "a+", "*", "a b", "[::1", "http://a"])
def test_a_name_that_is_none_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a list of host names"):
        limits.parse_hosts(text)


def test_a_server_reports_a_wrong_name_in_one_line() -> None:
    code, lines = wait_for_end(begin("loop", "noop_sync", "0", SERVER_ALLOWED_HOSTS="a:1"))
    assert (code, len(lines)) == (2, 1)
    assert "allowed_hosts='a:1' is not a list of host names" in lines[0]


def test_a_very_long_name_is_refused_and_not_kept() -> None:
    before = limits._is_known.cache_info().currsize
    assert not limits.is_host_allowed("a" * 70_000)
    assert limits._is_known.cache_info().currsize == before
