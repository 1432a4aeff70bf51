"""Requests of public test suites, written out with what a server must do with them.

The facts are those of the tests of llhttp (test/request), gunicorn (tests/requests) and Tornado
(tornado/test/httpserver_test.py), and of RFC 9112. Paths and hosts are those of this project's
servers, and most methods are GET, so that a request which is accepted is served.
"""

from lab.faults.requests.corpus import chunked, fields, lengths, several, start_lines
from lab.faults.requests.corpus.case import Case

CASES: tuple[Case, ...] = (
    *start_lines.CASES,
    *fields.CASES,
    *lengths.CASES,
    *chunked.CASES,
    *several.CASES,
)
