"""Request lines."""

from __future__ import annotations

from lab.faults.requests.corpus.case import (
    GUNICORN,
    LLHTTP,
    RFC,
    TORNADO,
    Case,
    get,
    line,
)
from lab.faults.requests.judgement import EITHER, REFUSED, SERVED

CASES = (
    Case("a simple request", LLHTTP, SERVED, get()),
    Case("HTTP/1.0 without a Host", RFC, SERVED, b"GET / HTTP/1.0\r\n\r\n"),
    Case("a query", LLHTTP, SERVED, line(b"GET /?a=b&c=d HTTP/1.1")),
    Case("a query with quotes", LLHTTP, EITHER, line(b'GET /?a="b" HTTP/1.1')),
    Case("a path in UTF-8", LLHTTP, EITHER, line(b"GET /\xce\xb4 HTTP/1.1")),
    Case("an absolute target", RFC, EITHER, line(b"GET http://127.0.0.1/ HTTP/1.1")),
    Case(
        "an absolute target with a port", LLHTTP, EITHER, line(b"GET http://127.0.0.1:80/ HTTP/1.1")
    ),
    Case("an authority as target", GUNICORN, REFUSED, line(b"GET 127.0.0.1:80 HTTP/1.1")),
    Case("an asterisk as target", GUNICORN, REFUSED, line(b"GET * HTTP/1.1")),
    Case("a relative target", GUNICORN, REFUSED, line(b"GET foo/bar HTTP/1.1")),
    Case("a target that is no URL", GUNICORN, REFUSED, line(b"GET s://]ufd/: HTTP/1.1")),
    Case("CONNECT", LLHTTP, REFUSED, line(b"CONNECT 127.0.0.1:443 HTTP/1.1")),
    Case("no target", GUNICORN, REFUSED, line(b"GET HTTP/1.1")),
    Case("no version", RFC, REFUSED, b"GET /\r\n\r\n"),
    Case("no version, with fields", RFC, REFUSED, line(b"GET /")),
    Case("no version, no line end", RFC, REFUSED, b"GET /"),
    Case("a word only", TORNADO, REFUSED, b"asdf\r\n\r\n"),
    Case("four words", LLHTTP, REFUSED, line(b"GET / HTTP/1.1 x")),
    Case("two spaces", RFC, EITHER, line(b"GET  / HTTP/1.1")),
    Case("tabs", RFC, EITHER, line(b"GET\t/\tHTTP/1.1")),
    Case("other white space", RFC, EITHER, line(b"GET\x0b/\x0cHTTP/1.1")),
    Case("spaces of Unicode", RFC, REFUSED, line(b"GET\x85/\xa0HTTP/1.1")),
    Case("line feeds between the words", GUNICORN, REFUSED, b"GET\n/\nHTTP/1.1\r\n\r\n"),
    Case("a space before the method", RFC, EITHER, line(b" GET / HTTP/1.1")),
    Case("empty lines before", LLHTTP, EITHER, b"\r\n" + get()),
    Case("HTTP/1.2", RFC, EITHER, line(b"GET / HTTP/1.2")),
    Case("HTTP/2.0", GUNICORN, REFUSED, line(b"GET / HTTP/2.0")),
    Case("HTTP/5.6", LLHTTP, REFUSED, line(b"GET / HTTP/5.6")),
    Case("HTTP/0.9", RFC, REFUSED, line(b"GET / HTTP/0.9")),
    Case("HTTP/0.99", GUNICORN, REFUSED, line(b"GET / HTTP/0.99")),
    Case("HTTP/111", GUNICORN, REFUSED, line(b"GET / HTTP/111")),
    Case("HTTP/1.10", RFC, REFUSED, line(b"GET / HTTP/1.10")),
    Case("HTTP/01.1", RFC, REFUSED, line(b"GET / HTTP/01.1")),
    Case("a long version", GUNICORN, REFUSED, line(b"GET / HTTP/" + b"1" * 80 + b".1")),
    Case("a version in superscript", RFC, REFUSED, line(b"GET / HTTP/1.\xb9")),
    Case("http/1.1", RFC, REFUSED, line(b"GET / http/1.1")),
    Case("FTP/1.1", GUNICORN, REFUSED, line(b"GET / FTP/1.1")),
    Case("ICE/1.0", LLHTTP, REFUSED, line(b"GET / ICE/1.0")),
    Case("IHTTP/1.0", LLHTTP, REFUSED, line(b"GET / IHTTP/1.0")),
    Case("RTSP/1.0", LLHTTP, REFUSED, line(b"PUT / RTSP/1.0")),
    Case("the preface of HTTP/2", LLHTTP, REFUSED, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Case("a colon in the method", GUNICORN, REFUSED, line(b"GET: / HTTP/1.1")),
    Case("a NUL in the method", GUNICORN, REFUSED, line(b"GET\0 / HTTP/1.1")),
    Case("a NUL between words", GUNICORN, REFUSED, line(b"GET\0PROXY / HTTP/1.1")),
    Case("a letter beyond ASCII in the method", GUNICORN, REFUSED, line(b"GET\xdf / HTTP/1.1")),
    Case("an unknown method", LLHTTP, REFUSED, line(b"MKCOLA / HTTP/1.1")),
    Case("a NUL in the target", RFC, REFUSED, line(b"GET /\0 HTTP/1.1")),
    Case("a space in the target", RFC, REFUSED, line(b"GET /a b HTTP/1.1")),
    Case(
        "the PROXY protocol", GUNICORN, REFUSED, b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + get()
    ),
    Case("TLS", RFC, REFUSED, b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n"),
    Case("a long target", TORNADO, REFUSED, line(b"GET /" + b"a" * 100_000 + b" HTTP/1.1")),
)
