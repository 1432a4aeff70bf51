"""Several requests on one connection, and bodies with a content type."""

from __future__ import annotations

from lab.faults.requests.corpus.case import (
    END,
    LLHTTP,
    RFC,
    TORNADO,
    Case,
    chunks,
    get,
    length,
    post,
)
from lab.faults.requests.judgement import EITHER, REFUSED, SERVED

CASES = (
    Case("two requests", LLHTTP, SERVED, get() + get()),
    Case("three requests with bodies", LLHTTP, SERVED, length(b"3", b"abc") * 3),
    Case("a request after close", LLHTTP, SERVED, get(b"Connection: close\r\n") + get()),
    Case("a request after HTTP/1.0", RFC, SERVED, b"GET / HTTP/1.0\r\n\r\n" + get()),
    Case("a request after a refused one", RFC, REFUSED, get(b"X : y\r\n") + get()),
    Case("a request after a wrong chunk", RFC, REFUSED, chunks(b"5\r\nhelloo\r\n" + END) + get()),
    Case(
        "a request after two lengths", RFC, REFUSED, length(b"0", get(), b"Content-Length: 37\r\n")
    ),
    Case("a request in a body", LLHTTP, SERVED, length(b"%d" % len(get()), get())),
    Case("a body that is not announced", RFC, SERVED, get(b"", b"hello")),
    Case("100-continue", RFC, EITHER, length(b"5", b"hello", b"Expect: 100-continue\r\n")),
    Case("an unknown expectation", RFC, EITHER, get(b"Expect: miracles\r\n")),
    Case("an upgrade", LLHTTP, EITHER, get(b"Connection: Upgrade\r\nUpgrade: other\r\n")),
    Case(
        "a form that is not UTF-8",
        TORNADO,
        EITHER,
        post(b"application/x-www-form-urlencoded", b"a=\xff&&"),
    ),
    Case(
        "parts without a boundary",
        TORNADO,
        REFUSED,
        post(b"multipart/form-data", b"hello"),
    ),
    Case(
        "parts without an end",
        TORNADO,
        REFUSED,
        post(b"multipart/form-data; boundary=a", b"--a\r\n"),
    ),
    Case(
        "an unknown coding of the content",
        TORNADO,
        EITHER,
        length(b"5", b"hello", b"Content-Encoding: gzip\r\n"),
    ),
)
