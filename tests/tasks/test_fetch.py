"""A failed request is one short line with the host and the innermost cause, with either client."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from offload.tasks import _fetch, _retry
from offload.tasks._fetch import FetchFailed, afetch, fetch
from offload.upstream import Upstream

END = "Connection: close\r\nContent-Length: "
BOTH = pytest.mark.parametrize("by", [fetch, lambda url: asyncio.run(afetch(url))])
By = Callable[[str], bytes]


@contextmanager
def answering(answer: bytes, is_reset: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """Send each request the same response, then close; yield the address and the requests."""
    requests: list[bytes] = []

    def accepted() -> socket.socket:
        connection = listener.accept()[0]
        connection.settimeout(20)
        return connection

    def serve() -> None:
        while request := (connection := accepted()).recv(65536):
            requests.append(request)
            connection.sendall(answer)
            if is_reset:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", requests
        finally:
            socket.create_connection(listener.getsockname()).close()  # no request: the server ends
            thread.join(10)


def error_of(by: By, url: str) -> str:
    with pytest.raises(FetchFailed) as caught:
        by(url)
    assert caught.value.__cause__ is not None
    return str(caught.value)


@BOTH
def test_unknown_host_is_reported(by: By) -> None:
    expected = r"no\.such\.invalid could not be reached: (name resolution failed \(.+\)|timed out)"
    assert re.fullmatch(expected, error_of(by, "https://no.such.invalid/"))


@BOTH
def test_refusal_is_reported(by: By) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"
        assert error_of(by, f"http://{host}/") == f"{host} could not be reached: connection refused"


@BOTH
def test_reset_is_reported(by: By) -> None:
    with answering(b"H", is_reset=True) as (host, _):
        expected = f"{host} could not be reached: connection reset by peer"
        assert error_of(by, f"http://{host}/") == expected


@BOTH
def test_timeout_is_reported(by: By, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fetch, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        assert error_of(by, f"http://{host}/") == f"{host} could not be reached: timed out"


@BOTH
def test_unknown_certificate_is_reported(by: By, held: Upstream) -> None:
    host = held.https.removeprefix("https://")
    expected = f"{host} could not be reached: certificate verify failed ("
    assert error_of(by, f"{held.https}/page.html").startswith(expected)


@BOTH
@pytest.mark.parametrize("status", [404, 500, 503])
def test_status_is_reported_without_a_password_of_the_url(by: By, status: int) -> None:
    with answering(f"HTTP/1.1 {status} No\r\n{END}0\r\n\r\n".encode()) as (host, _):
        expected = f"{host} returned status {status}"
        assert error_of(by, f"http://user:secret@{host}/") == expected


@BOTH
def test_answer_that_is_no_http_is_reported(by: By) -> None:
    with answering(b"SSH-2.0\r\n\r\n") as (host, _):
        assert error_of(by, f"http://{host}/").startswith(f"{host} could not be reached: ")


def test_proxy_that_refuses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    expected = "example.com could not be reached through the proxy: connection refused"
    assert error_of(fetch, "http://example.com/") == expected


@pytest.mark.parametrize(("status", "tries"), [(500, _retry.TRIES), (404, 1), (503, 1)])
def test_only_a_500_is_tried_again(status: int, tries: int) -> None:
    with answering(f"HTTP/1.1 {status} No\r\n{END}0\r\n\r\n".encode()) as (host, requests):
        with pytest.raises(FetchFailed):
            asyncio.run(_retry.retry_transient(afetch)(f"http://{host}/"))
        assert len(requests) == tries


@pytest.mark.slow
def test_retries_in_several_threads_do_not_disturb_each_other() -> None:
    @_retry.retry_transient
    async def always_reset() -> bytes:
        raise ConnectionResetError

    def outcome(_: int) -> type[BaseException]:
        with pytest.raises(Exception) as caught:
            asyncio.run(always_reset())
        return caught.type

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # s: threads take turns within a call of the library
    try:
        with ThreadPoolExecutor(8) as threads:
            assert {*threads.map(outcome, range(400))} == {ConnectionResetError}
    finally:
        sys.setswitchinterval(interval)


def test_reset_is_tried_again() -> None:
    with answering(b"H", is_reset=True) as (host, requests):
        with pytest.raises(FetchFailed):
            asyncio.run(_retry.retry_transient(afetch)(f"http://{host}/"))
        assert len(requests) == _retry.TRIES


def test_timeout_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fetch, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(FetchFailed):
            asyncio.run(_retry.retry_transient(afetch)(f"http://{host}/"))
        silent.settimeout(0.1)
        silent.accept()[0].close()
        with pytest.raises(TimeoutError):
            silent.accept()
