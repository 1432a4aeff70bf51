"""Servers that run a task refuse all methods but GET and HEAD alike, and HEAD has no body."""

from __future__ import annotations

import http.client
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from offload.engine import server

pytestmark = pytest.mark.server

REFUSED = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def respond(url: str, method: str, path: str = "/", **headers: str) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        connection.request(method, path, b"12345" if method == "POST" else None, headers)
        response = connection.getresponse()
        response.read()
        return response.status, {name.lower(): value for name, value in response.getheaders()}
    finally:
        connection.close()


def test_other_methods_than_get_and_head_are_405(noop_server: server.Server) -> None:
    for method in REFUSED:
        for path in ("/", "/resources/"):
            status, headers = respond(noop_server.url, method, path)
            assert (method, path, status) == (method, path, 405)
            assert sorted(headers["allow"].split(", ")) == ["GET", "HEAD"]


def test_head_runs_the_task_and_has_no_body(noop_server: server.Server) -> None:
    address = ("127.0.0.1", int(str(noop_server.facts["port"])))
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with client.makefile("rb") as stream:
            head, _, body = stream.read().partition(b"\r\n\r\n")
    assert head.split()[1] == b"200"
    assert b"content-length: 2" in head.lower()
    assert body == b""


def test_head_reports_a_failed_task(start: Any, tmp_path: Any) -> None:
    (tmp_path / "fails.py").write_text("def fails(): raise ValueError\n")
    running = start("loop", f"{tmp_path}/fails.py:fails")
    assert respond(running.url, "HEAD")[0] == 500


@pytest.mark.parametrize("name", ["uvicorn_h11", "hypercorn", "granian_asgi", "granian_rsgi"])
def test_a_response_of_a_given_size_has_the_same_methods(name: str, start: Any) -> None:
    url = start(name, "noop_sync").url
    assert respond(url, "POST", "/bytes/10")[0] == 405
    status, headers = respond(url, "HEAD", "/bytes/10")
    assert (status, headers["content-length"]) == (200, "10")
