"""Header fields."""

from __future__ import annotations

from lab.faults.requests.corpus.case import (
    GUNICORN,
    HOST,
    LLHTTP,
    RFC,
    TORNADO,
    Case,
    get,
    line,
)
from lab.faults.requests.judgement import EITHER, REFUSED, SERVED

CASES = (
    Case("no Host", RFC, REFUSED, line(b"GET / HTTP/1.1", b"")),
    Case("two Hosts", GUNICORN, REFUSED, get(HOST)),
    Case("two different Hosts", GUNICORN, REFUSED, get(b"Host: shop.test\r\n")),
    Case("a list of Hosts", TORNADO, REFUSED, line(b"GET / HTTP/1.1", b"Host: 127.0.0.1, a\r\n")),
    Case("a Host with a path", RFC, REFUSED, line(b"GET / HTTP/1.1", b"Host: 127.0.0.1/a\r\n")),
    Case("a Host with a user", RFC, REFUSED, line(b"GET / HTTP/1.1", b"Host: a@127.0.0.1\r\n")),
    Case("a space before the colon", GUNICORN, REFUSED, get(b"X : y\r\n")),
    Case(
        "a space before the colon of a length",
        GUNICORN,
        REFUSED,
        get(b"Content-Length : 3\r\n", b"xyz"),
    ),
    Case("a tab before the colon", RFC, REFUSED, get(b"X\t: y\r\n")),
    Case("no colon", TORNADO, REFUSED, get(b"asdf\r\n")),
    Case("no name", LLHTTP, REFUSED, get(b": y\r\n")),
    Case("an @ in a name", LLHTTP, REFUSED, get(b"Fo@: y\r\n")),
    Case("a control character in a name", LLHTTP, REFUSED, get(b"Foo\x01test: y\r\n")),
    Case("a NUL in a name", GUNICORN, REFUSED, get(b"ba\0z: y\r\n")),
    Case("a letter beyond ASCII in a name", GUNICORN, REFUSED, get(b"Content-Length\xdf: 3\r\n")),
    Case("a CR in a name", LLHTTP, REFUSED, get(b"Content\rLength: 3\r\n", b"abc")),
    Case("a corrupt Connection", LLHTTP, REFUSED, get(b"Connection\r\x1be\xd5eep-Alive\r\n")),
    Case("a NUL in a value", RFC, EITHER, get(b"X: a\0b\r\n")),
    Case("a CR in a value", LLHTTP, EITHER, get(b"X: 1\rBar: 2\r\n")),
    Case("a bell in a value", GUNICORN, EITHER, get(b"X: plain\x07injected\r\n")),
    Case("a DEL in a value", GUNICORN, EITHER, get(b"X: plain\x7finjected\r\n")),
    Case("a value beyond ASCII", RFC, EITHER, get(b"X: \xc3\xa9\r\n")),
    Case("an empty value", LLHTTP, SERVED, get(b"X:\r\n")),
    Case("spaces around a value", LLHTTP, SERVED, get(b"X: \t y \t\r\n")),
    Case("every character of a name", LLHTTP, SERVED, get(b"!#$%&'*+-.^_`|~0aZ: y\r\n")),
    Case("a folded line", GUNICORN, EITHER, get(b"X: one\r\n two\r\n")),
    Case("a folded name", LLHTTP, REFUSED, get(b"name\r\n : value\r\n")),
    Case(
        "a space before the first field",
        LLHTTP,
        EITHER,
        line(b"GET / HTTP/1.1", b" Host: foo\r\n" + HOST),
    ),
    Case("lines that end with LF", LLHTTP, EITHER, b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n"),
    Case("lines that end with CR", LLHTTP, REFUSED, b"GET / HTTP/1.1\rHost: 127.0.0.1\r\r"),
    Case(
        "a CR before the empty line",
        LLHTTP,
        REFUSED,
        get(b"Connection: close\r\n\rZGET /: HTTP/1.1\r\n" + HOST),
    ),
    Case("no empty line", GUNICORN, REFUSED, b"GET / HTTP/1.1\r\n" + HOST),
    Case("half a field", GUNICORN, REFUSED, b"GET / HTTP/1.0\r\nbaz"),
    Case("90 fields", RFC, EITHER, get(b"".join(b"X-%d: y\r\n" % n for n in range(90)))),
    Case(
        "10,000 fields", GUNICORN, REFUSED, get(b"".join(b"X-%d: y\r\n" % n for n in range(10_000)))
    ),
    Case("a long field", GUNICORN, REFUSED, get(b"X: " + b"y" * 1_000_000 + b"\r\n")),
)
