"""Valid requests. If possible, their bodies look like requests."""

from __future__ import annotations

HOST = b"Host: 127.0.0.1\r\n"
SIMPLE = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
LAST = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
PARTS = b"Content-Type: multipart/form-data; boundary=edge\r\n"
BROWSER = (
    b"GET /?q=a%20b&q=c HTTP/1.1\r\n" + HOST + b"User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n"
    b"Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n"
    b"Accept-Encoding: gzip, deflate, br\r\n"
    b"Cookie: one=1; two=2\r\n"
    b'If-None-Match: W/"0815"\r\n'
    b"Range: bytes=0-1\r\n"
    b"Connection: keep-alive\r\n\r\n"
)


def with_length(method: bytes, body: bytes, fields: bytes = b"") -> bytes:
    """Return a request whose body has a Content-Length."""
    length = b"Content-Length: %d\r\n" % len(body)
    return method + b" / HTTP/1.1\r\n" + HOST + fields + length + b"\r\n" + body


def chunked(method: bytes, *chunks: bytes, fields: bytes = b"") -> bytes:
    """Return a request whose body is sent in chunks."""
    body = b"".join(b"%x\r\n" % len(chunk) + chunk + b"\r\n" for chunk in chunks)
    head = method + b" / HTTP/1.1\r\n" + HOST + fields + b"Transfer-Encoding: chunked\r\n\r\n"
    return head + body + b"0\r\n\r\n"


MULTIPART = (
    b"--edge\r\n"
    b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n'
    b"Content-Type: text/plain\r\n\r\n"
    b"content\r\n"
    b"--edge--\r\n"
)
REQUESTS = (
    SIMPLE,
    LAST,
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.0\r\n" + HOST + b"Connection: keep-alive\r\n\r\n",
    b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /resources/?from=1&to=2 HTTP/1.1\r\n" + HOST + b"\r\n",
    BROWSER,
    with_length(b"GET", SIMPLE),
    with_length(b"POST", SIMPLE),
    with_length(b"POST", b"a=1&b=2&a=%C3%A9", FORM),
    with_length(b"POST", MULTIPART, PARTS),
    with_length(b"GET", b"hello", b"Expect: 100-continue\r\n"),
    chunked(b"GET", b"hello", b" world"),
    chunked(b"POST", SIMPLE, b"x" * 300),
    chunked(b"PUT", MULTIPART[:20], MULTIPART[20:], fields=PARTS),
    SIMPLE + SIMPLE + LAST,
    with_length(b"GET", b"hello") + LAST,
    chunked(b"GET", b"hello") + SIMPLE + LAST,
)
