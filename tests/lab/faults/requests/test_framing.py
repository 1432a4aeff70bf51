"""The reading of requests: how many there are, and which must be refused or answered."""

from __future__ import annotations

import pytest

from lab.faults.requests import framing, valid
from lab.faults.requests.corpus import CASES, Case
from lab.faults.requests.judgement import REFUSED, SERVED

HOST = b"Host: a\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


def read(data: bytes) -> list[tuple[bool, bool]]:
    """Return whether each request must be refused, and whether it is valid."""
    return [(found.must_refuse, found.is_valid) for found in framing.read(data)]


VALID, TOLERATED, REFUSE = (False, True), (False, False), (True, False)


@pytest.mark.parametrize("data", valid.REQUESTS)
def test_valid_requests_are_valid(data: bytes) -> None:
    found = framing.read(data)
    special = data.startswith(b"OPTIONS *") or b"Expect" in data
    assert found[0].is_valid != special
    assert not any(request.must_refuse for request in found)


def test_requests_on_one_connection_are_counted() -> None:
    body = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello"
    chunks = (
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    assert read(GET + body + chunks + GET) == [VALID] * 4
    assert [request.method for request in framing.read(body + GET)] == [b"POST", b"GET"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\r\n", []),
        (b"\r\n\r\n", [REFUSE]),
        (GET + b"\n\n", [VALID, REFUSE]),
        (GET + b"\r\n", [VALID]),
        (b"\r\n" + GET, [TOLERATED]),
        (GET + b"GE", [VALID, REFUSE]),
        (b"GET / HTTP/1.1\r\n\r\n" + GET, [REFUSE, VALID]),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"Content-Length: 9\r\n\r\nhello", [REFUSE]),
        (b"GET /\r\n\r\n" + GET, [REFUSE]),
        (b"GET / HTTP/1.0\r\n\r\n" + GET, [VALID]),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET, [VALID, VALID]),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n" + GET, [VALID]),
        (b"GET / HTTP/1.1\r\nConnection: TE, Close\r\n" + HOST + b"\r\n" + GET, [VALID]),
        (b"GET / HTTP/1.1\n" + HOST + b"\n" + GET, [TOLERATED, VALID]),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n z\r\n\r\n" + GET, [TOLERATED, VALID]),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X : y\r\n\r\n" + GET, [REFUSE]),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\nhello", [TOLERATED]),
        (
            b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5, 5\r\n\r\nhello" + GET,
            [TOLERATED, VALID],
        ),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5, 6\r\n\r\nhello" + GET, [REFUSE]),
        (
            b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 0\nX: y\r\n\r\n" + GET,
            [TOLERATED, VALID],
        ),
    ],
)
def test_tolerance_ends_where_the_end_of_a_request_is_unclear(
    data: bytes, expected: list[tuple[bool, bool]]
) -> None:
    assert read(data) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"5\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloo\r\n0\r\n\r\n",
        b"0\r\nx\r\n\r\n",
    ],
)
def test_nothing_follows_a_wrong_chunk(body: bytes) -> None:
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    assert read(head + body + GET) == [TOLERATED]


@pytest.mark.parametrize("body", [b"0\r\n\r\n" + GET, b"1\r\nx\r\n0\r\n\r\n"])
def test_nothing_follows_a_request_with_a_length_and_a_coding(body: bytes) -> None:
    both = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(body)
    assert read(b"POST / HTTP/1.1\r\n" + HOST + both + body + GET) == [TOLERATED]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_corpus_agrees_with_the_reading(case: Case) -> None:
    first = framing.read(case.data)[0]
    if case.expected == SERVED:
        assert first.is_valid
    if case.expected == REFUSED:
        assert not first.is_valid or first.method != b"GET"  # servers refuse other methods


def test_each_case_has_its_own_name_and_bytes() -> None:
    assert len({case.name for case in CASES}) == len({case.data for case in CASES}) == len(CASES)
    assert len(CASES) > 150
