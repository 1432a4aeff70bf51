"""Lengths of bodies."""

from __future__ import annotations

from lab.faults.requests.corpus.case import (
    GUNICORN,
    LLHTTP,
    RFC,
    Case,
    get,
    length,
)
from lab.faults.requests.judgement import EITHER, REFUSED, SERVED

CASES = (
    Case("a length", LLHTTP, SERVED, length(b"5", b"hello")),
    Case("a length in odd case", LLHTTP, SERVED, get(b"conTENT-Length: 5\r\n", b"HELLO")),
    Case("a length with zeros", LLHTTP, SERVED, length(b"003", b"abc")),
    Case("a length with spaces around", LLHTTP, SERVED, length(b" 3 ", b"abc")),
    Case("a length of zero", RFC, SERVED, length(b"0")),
    Case("a length with a space inside", LLHTTP, REFUSED, length(b"4 2")),
    Case("two lengths in one field", GUNICORN, REFUSED, length(b"3 1", b"xyz")),
    Case("a list of equal lengths", GUNICORN, EITHER, length(b"5, 5", b"hello")),
    Case("a list of lengths", RFC, REFUSED, length(b"5, 6", b"hello")),
    Case("two equal lengths", LLHTTP, EITHER, length(b"3", b"xyz", b"Content-Length: 3\r\n")),
    Case("two lengths", GUNICORN, REFUSED, length(b"3", b"xyz", b"Content-Length: 2\r\n")),
    Case("an empty length", LLHTTP, REFUSED, length(b"")),
    Case("a length of -1", GUNICORN, REFUSED, length(b"-1")),
    Case("a length of -0", GUNICORN, REFUSED, length(b"-0")),
    Case("a length of +1", GUNICORN, REFUSED, length(b"+1", b"x")),
    Case("a length of 0_1", GUNICORN, REFUSED, length(b"0_1", b"x")),
    Case("a length of 0x1", RFC, REFUSED, length(b"0x1", b"x")),
    Case("a length of 1.0", RFC, REFUSED, length(b"1.0", b"x")),
    Case("a length in superscript", RFC, REFUSED, length(b"\xb2", b"xy")),
    Case("a length of letters", GUNICORN, REFUSED, length(b"bla")),
    Case("a huge length", LLHTTP, REFUSED, length(b"1000000000000000000000")),
    Case("a length of 5,000 digits", RFC, REFUSED, length(b"9" * 5000)),
    Case("a length that is folded", LLHTTP, EITHER, get(b"X: y\r\n Content-Length: 38\r\n", get())),
    Case("a length after a bare LF", LLHTTP, EITHER, get(b"X: y\nContent-Length: 37\r\n", get())),
    Case("a length after a vertical tab", RFC, EITHER, get(b"X: y\x0bContent-Length: 3\r\n")),
    Case("a length after NEL", RFC, EITHER, get(b"X: y\x85Content-Length: 3\r\n")),
    Case("a shorter body", RFC, EITHER, length(b"10", b"short")),
)
