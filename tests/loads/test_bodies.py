"""Under load, a response with another body than the expected one is a failure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import pytest

from offload import loads
from offload.loads import Arrivals, Load, Message
from tests.loads.conftest import Server, run_here

pytestmark = pytest.mark.server
LOAD = Load("", users=2, seconds=None, requests=40, keep_alive=True)
HELLO = hashlib.sha256(b"hello").hexdigest()


def counted(load: Load) -> tuple[int | None, Mapping[str, int | None]]:
    figures = run_here(load).figures
    return figures.completed, {kind: n for kind, n in figures.failed.items() if n}


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("path", ["/sometimes-wrong", "/in-pieces"])
def test_an_error_that_comes_as_a_200_is_a_failure(
    server: Server, path: str, keep_alive: bool
) -> None:
    server.requests[path] = 0
    load = replace(LOAD, url=server.url(path), keep_alive=keep_alive, response_sha256=HELLO)
    assert counted(load) == (30, {"body": 10})
    assert counted(replace(load, response_sha256=None)) == (40, {})


@pytest.mark.parametrize("path", ["/wrong", "/204", "/302"])
def test_no_response_has_the_body(server: Server, path: str) -> None:
    load = replace(LOAD, url=server.url(path), response_sha256=HELLO)
    assert counted(load) == (0, {"body": 40})


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize(
    "path", ["/", "/chunked", "/http10", "/slow-head", "/says-close", "/continue", "/two-answers"]
)
def test_the_body_is_read_however_it_is_sent(server: Server, path: str, keep_alive: bool) -> None:
    load = replace(LOAD, url=server.url(path), keep_alive=keep_alive, response_sha256=HELLO)
    assert counted(load) == (40, {})


def test_an_empty_body_may_be_expected(server: Server) -> None:
    empty = hashlib.sha256(b"").hexdigest()
    load = replace(LOAD, url=server.url("/302"), response_sha256=empty)
    assert counted(load) == (40, {})
    assert counted(replace(load, url=server.url("/"))) == (0, {"body": 40})


def test_an_error_status_keeps_its_kind(server: Server) -> None:
    load = replace(LOAD, url=server.url("/500"), response_sha256=HELLO)
    assert counted(load) == (0, {"5xx": 40})


def test_open_loops_and_several_processes_check_bodies_too(server: Server) -> None:
    load = replace(LOAD, url=server.url("/wrong"), response_sha256=HELLO)
    opened = replace(load, requests=None, seconds=0.2, arrivals=Arrivals(50.0))
    assert (counted(opened)[1]).keys() == {"body"}
    figures = loads.run(replace(load, processes=2), "builtin").result.figures
    assert (figures.completed, figures.failed["body"]) == (0, 40)


def test_a_body_longer_than_an_argument_of_a_program_is_sent(server: Server) -> None:
    before, body = len(server.bodies), "x" * 200_000
    message = Message("POST", body)
    found = loads.run(replace(LOAD, url=server.url(), requests=4, message=message), "builtin")
    assert (found.result.problem, found.result.figures.completed) == (None, 4)
    assert server.bodies[before:] == [body.encode()] * 4
