"""The output of h2load is parsed correctly; the recorded outputs are of nghttp2/1.52.0."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from offload import loads
from offload.errors import Flag, UsageError
from offload.loads import Arrivals, Load, LoadResult, Message, Window
from offload.loads.h2load import command, parse
from tests.loads.conftest import Server

DATA = Path(__file__).parent / "data" / "h2load"
LOAD = Load("http://127.0.0.1/", users=3, seconds=None, requests=30, keep_alive=True)
installed = pytest.mark.skipif(
    shutil.which("h2load") is None, reason="h2load is not installed: make test-all"
)


def recorded(name: str, **more: object) -> LoadResult:
    out, err = ((DATA / f"{name}.{end}").read_text() for end in ("out", "err"))
    return parse(out, err, replace(LOAD, **more))  # type: ignore[arg-type]


def test_a_good_run_is_read() -> None:
    measured = recorded("good")
    assert (measured.figures.completed, measured.figures.availability, measured.problem) == (
        3000,
        1.0,
        None,
    )
    assert (measured.figures.elapsed_s, measured.figures.rate_quantum) == (0.13348, 0.001)
    assert measured.figures.rate == pytest.approx(22474.77, rel=0.001)
    assert (measured.figures.response.mean_s, measured.figures.response.max_s) == (
        0.000132,
        0.000781,
    )
    assert (measured.figures.response.how, measured.figures.response.p99_s) == (
        "h2load's own",
        None,
    )


def test_a_warm_up_is_not_in_the_duration() -> None:
    measured = recorded("seconds", requests=None, seconds=2.0, window=Window(1.0))
    assert (measured.figures.elapsed_s, measured.figures.completed, measured.figures.rate) == (
        2.0,
        21,
        10.5,
    )
    assert (measured.figures.response.mean_s, measured.figures.response.max_s) == (0.28074, 0.28085)


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [("404", "4xx", 30), ("500", "5xx", 30), ("reset", "other", 3), ("timeout", "timeout", 3)],
)
def test_a_failure_is_counted_by_its_kind(name: str, kind: str, count: int) -> None:
    measured = recorded(name)
    assert {k: n for k, n in measured.figures.failed.items() if n} == {kind: count}
    assert (measured.figures.completed, measured.figures.availability) == (0, 0.0)
    assert (measured.figures.response.mean_s, measured.figures.response.max_s) == (None, None)


def test_requests_that_were_never_sent_are_a_problem_and_no_failed_requests() -> None:
    assert recorded("refused").problem == "h2load sent 0 of 9: connections failed"
    assert recorded("reset").problem == "h2load sent 3 of 30: connections failed"
    assert recorded("refused").figures.failed["refused"] is None


def test_a_crash_is_a_problem_with_its_last_words() -> None:
    assert "invalid fd" in (recorded("hang-seconds").problem or "")
    assert parse("", "", LOAD).problem == "h2load printed no result: see its output"


def test_nothing_completed_in_time_has_no_times() -> None:
    measured = recorded("unfinished", requests=None, seconds=1.0)
    assert (
        measured.figures.completed,
        measured.figures.rate,
        measured.figures.response.mean_s,
    ) == (0, 0.0, None)


def test_the_words_are_those_of_the_load() -> None:
    argv = command(replace(LOAD, requests=None, seconds=1.5, window=Window(0.5), timeout=7)).argv
    words = "-c 3 -t 1 -N 7s -D 1500ms --warm-up-time 500ms http://127.0.0.1/"
    assert argv == ("h2load", "--h1", *words.split())


def test_fewer_requests_than_users_are_sent_by_fewer_users() -> None:
    measured = recorded("good", users=40)
    assert measured.notes == (Flag("users", "30 sent requests instead of 40"),)


def test_it_keeps_its_connections_and_has_no_open_loop() -> None:
    with pytest.raises(
        UsageError, match="h2load always keeps connections alive: use keep_alive=yes"
    ):
        loads.check(replace(LOAD, keep_alive=False), "h2load")
    with pytest.raises(UsageError, match="h2load has no open loop: use driver=builtin"):
        loads.check(replace(LOAD, requests=None, seconds=1.0, arrivals=Arrivals(5.0)), "h2load")


@installed
@pytest.mark.suites
@pytest.mark.parametrize("amount", [{"requests": 30}, {"requests": None, "seconds": 0.5}])
def test_the_real_h2load_agrees_with_what_was_recorded(
    server: Server, amount: dict[str, float]
) -> None:
    load = replace(LOAD, url=server.url("/"), **amount)  # type: ignore[arg-type]
    ran = loads.run(load, "h2load")
    assert ran.result.problem is None
    assert (ran.result.figures.completed or 0) >= 30
    assert (ran.version or "")[0].isdigit()


@installed
@pytest.mark.suites
def test_a_body_is_sent_by_its_method(server: Server) -> None:
    before = len(server.bodies)
    loads.run(
        replace(LOAD, url=server.url("/"), requests=3, message=Message("PUT", "{}")), "h2load"
    )
    assert server.bodies[before:] == [b"{}"] * 3
    assert server.heads[-1].startswith(b"PUT / ")
