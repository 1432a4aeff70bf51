"""The count of responses: it finds each one, and everything that is no complete response."""

from __future__ import annotations

import pytest

from lab.faults.requests.responses import INCOMPLETE, Responses, parse

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
BAD = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
TO_THE_END = b"HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nbad"
CONTINUE = b"HTTP/1.1 100 (Continue)\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("stream", "methods", "statuses"),
    [
        (b"", [], ()),
        (OK, [b"GET"], (200,)),
        (OK + OK, [b"GET"], (200, 200)),
        (OK + BAD, [b"GET"], (200, 400)),
        (CHUNKED + CHUNKED, [], (200, 200)),
        (CONTINUE + OK, [b"GET"], (200,)),
        (HEAD + OK, [b"HEAD", b"GET"], (200, 200)),
        (OK + TO_THE_END, [b"GET"], (200, 400)),
        (b"HTTP/1.1 204 No Content\r\n\r\n" + OK, [], (204, 200)),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", [], (400,)),
        (b"HTTP/1.0 505 No\r\nContent-Length: 3\r\n\r\nbad", [b"HEAD"], (505,)),
        (b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\n" + OK, [b"HEAD"], (404, 200)),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n\0\0", [], (101,)),
    ],
)
def test_every_response_is_counted(
    stream: bytes, methods: list[bytes], statuses: tuple[int, ...]
) -> None:
    assert parse(stream, methods, has_ended=True) == Responses(statuses, "")


@pytest.mark.parametrize("complete", [OK, CHUNKED, HEAD + OK])
def test_each_shorter_stream_is_incomplete(complete: bytes) -> None:
    methods = [b"HEAD", b"GET"] if complete.startswith(HEAD + OK) else [b"GET"]
    ends = {len(HEAD)} if methods[0] == b"HEAD" else set()
    for length in {*range(1, len(complete))} - ends:
        assert parse(complete[:length], methods, has_ended=True).problem == INCOMPLETE, length


def test_a_response_without_a_length_ends_with_the_stream() -> None:
    assert parse(TO_THE_END, [], has_ended=False) == Responses((), INCOMPLETE)


@pytest.mark.parametrize(
    ("stream", "problem"),
    [
        (b"ok", "no HTTP response: b'ok'"),
        (OK + b"ok", "no HTTP response: b'ok'"),
        (b"HTTP/1.1 OK\r\n\r\n", "no HTTP response"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "no HTTP response"),
        (b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "no HTTP response"),
        (HEAD[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", "a response with two lengths"),
        (HEAD[:-2] + b"Content-Length: 3\r\n\r\n", "a response with an invalid length"),
        (CHUNKED.replace(b"chunked", b"gzip"), "an unknown coding"),
        (HEAD + b"okok", "no HTTP response: b'ok'"),
    ],
)
def test_what_is_no_response_is_named(stream: bytes, problem: str) -> None:
    assert parse(stream, [b"GET"], has_ended=True).problem.startswith(problem)
