"""The output of wrk is parsed correctly; the recorded outputs are of wrk 4.1.0."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from offload import loads
from offload.errors import Flag, UsageError
from offload.loads import Load, LoadResult, Message
from offload.loads.wrk import command, parse
from tests.loads.conftest import Server

DATA = Path(__file__).parent / "data" / "wrk"
LOAD = Load("http://127.0.0.1/", users=3, seconds=1.0, keep_alive=True)
installed = pytest.mark.skipif(
    shutil.which("wrk") is None, reason="wrk is not installed: make test-all"
)


def recorded(name: str) -> LoadResult:
    out, err = ((DATA / f"{name}.{end}").read_text() for end in ("out", "err"))
    return parse(out, err, LOAD)


def test_a_good_run_is_read() -> None:
    measured = recorded("good")
    assert (measured.figures.availability, measured.problem, measured.figures.response.p99_s) == (
        1.0,
        None,
        None,
    )
    assert measured.figures.response.how == "Little's law"
    assert measured.figures.elapsed_s == pytest.approx(1.0, abs=0.2)
    assert (measured.figures.completed or 0) > 1000


@pytest.mark.parametrize(("name", "kind"), [("404", "other"), ("500", "other"), ("reset", "reset")])
def test_a_failure_is_counted_and_has_no_times(name: str, kind: str) -> None:
    measured = recorded(name)
    assert (measured.figures.failed[kind] or 0) > 0
    assert (measured.figures.completed, measured.figures.response.mean_s) == (0, None)


def test_no_connection_is_a_problem() -> None:
    assert "unable to connect" in (recorded("refused").problem or "")
    assert parse("", "", LOAD).problem == "wrk printed no result: see its output"


def test_the_words_are_those_of_the_load() -> None:
    asked = command(replace(LOAD, seconds=1.5, timeout=7))
    assert " ".join(asked.argv) == f"wrk -t 1 -c 3 -d 2s --timeout 7s {LOAD.url}"
    posted = command(replace(LOAD, message=Message("POST", "a")))
    assert posted.argv[-3:] == ("-s", "{folder}/request.lua", LOAD.url)
    assert posted.files["request.lua"].splitlines()[1] == 'wrk.body = "\\097"'


def test_connections_that_threads_cannot_divide_are_left_out() -> None:
    """wrk divides connections by threads in integers: each of 2 threads opens 1 of 3."""
    load = replace(LOAD, processes=2)
    assert command(load).argv[:5] == ("wrk", "-t", "2", "-c", "2")
    out = (DATA / "good.out").read_text()
    found, all_three = parse(out, "", load), recorded("good")
    assert found.notes == (Flag("users", "2 sent requests instead of 3"),)
    assert all_three.notes == ()
    for name in ("rate_quantum", "response"):
        assert getattr(found.figures, name) != getattr(all_three.figures, name)
    figures = found.figures
    assert figures.response.mean_s == pytest.approx(2 / (figures.rate or 0))
    assert figures.rate_quantum == pytest.approx(2 / (figures.completed or 0))


@installed
@pytest.mark.suites
def test_it_opens_as_many_connections_as_it_reports(server: Server) -> None:
    before = server.accepts["/"]
    loads.run(replace(LOAD, url=server.url("/"), users=5, processes=2), "wrk")
    assert server.accepts["/"] - before == 4


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(UsageError, match="wrk has no number of requests: use driver=builtin"):
        loads.check(replace(LOAD, seconds=None, requests=3), "wrk")


@installed
@pytest.mark.suites
def test_a_real_server_gets_a_body_by_its_method(server: Server) -> None:
    before = len(server.bodies)
    body = '{"a": "\\"ü\\\\"}'
    load = replace(LOAD, url=server.url("/"), message=Message("POST", body))
    ran = loads.run(load, "wrk")
    assert (ran.result.problem, ran.result.figures.availability) == (None, 1.0)
    assert (ran.version or "")[0].isdigit()
    assert set(server.bodies[before:]) == {body.encode()}
    assert b"application/json" in server.heads[-1]
