"""The error of a failed request shows what the server answered, in one line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from offload.engine import workload
from offload.engine.workload import BadStatus
from offload.suites import Request

pytestmark = pytest.mark.server


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """Answer one request with 500 and a body; return the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.timeout = 10
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        thread.join(10)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"no such quote\nat line 7", "no such quote"),
        (b"", "nothing"),
        (
            b"<!doctype html>\n<html><head><TITLE>\n  500 &amp; no quote\n</TITLE></head></html>",
            "500 & no quote",
        ),
        (b"<p>no title</p>\n<p>more</p>", "<p>no title</p>"),
        (b"<title> </title>", "nothing"),
        (b"a < b <title>not a page</title>", "a < b <title>not a page</title>"),
    ],
)
def test_an_error_shows_the_first_line_or_the_title_of_a_page(body: bytes, shown: str) -> None:
    with answering(body) as url, pytest.raises(BadStatus) as raised:
        workload.get(url)
    assert (raised.value.status, str(raised.value)) == (500, f"answered 500: {shown}")


def test_a_secret_is_masked_before_the_response_is_cut() -> None:
    secret = "0123456789" * 30
    request = Request("/quote?api_key=s3cret", header=f"X-Token: {secret}")
    with answering(f"no s3cret, no {secret}".encode()) as url, pytest.raises(BadStatus) as raised:
        workload.get(f"{url}quote?api_key=s3cret", request)
    assert str(raised.value) == "GET /quote?api_key=*** answered 500: no ***, no ***"
