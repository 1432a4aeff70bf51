"""A case of a public test suite, and the parts that its requests are made of."""

from __future__ import annotations

from dataclasses import dataclass

HOST = b"Host: 127.0.0.1\r\n"
TE = b"Transfer-Encoding: chunked\r\n"
END = b"0\r\n\r\n"
LLHTTP, GUNICORN, TORNADO, RFC = "llhttp", "gunicorn", "tornado", "RFC 9112"


@dataclass(frozen=True)
class Case:
    """A request, where it comes from, and what must happen to it: served, refused, or either."""

    name: str
    origin: str
    expected: str
    data: bytes


def get(fields: bytes = b"", body: bytes = b"") -> bytes:
    """Return a GET request with a Host, further fields and a body."""
    return b"GET / HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body


def line(first: bytes, fields: bytes = HOST) -> bytes:
    """Return a request with this request line."""
    return first + b"\r\n" + fields + b"\r\n"


def length(value: bytes, body: bytes = b"", fields: bytes = b"") -> bytes:
    """Return a GET request with this Content-Length, and fields after it."""
    return get(b"Content-Length: " + value + b"\r\n" + fields, body)


def coded(value: bytes, body: bytes = END, fields: bytes = b"") -> bytes:
    """Return a GET request with this Transfer-Encoding, and fields after it."""
    return get(b"Transfer-Encoding: " + value + b"\r\n" + fields, body)


def chunks(body: bytes) -> bytes:
    """Return a GET request with a body in chunks."""
    return coded(b"chunked", body)


def post(content_type: bytes, body: bytes) -> bytes:
    """Return a POST request with a body of this type."""
    fields = b"Content-Type: %b\r\nContent-Length: %d\r\n" % (content_type, len(body))
    return line(b"POST / HTTP/1.1", HOST + fields) + body
