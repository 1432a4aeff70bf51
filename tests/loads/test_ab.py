"""The output of ab is parsed correctly; the recorded outputs are of ab 2.3 of Apache 2.4.71."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from offload import loads
from offload.errors import Flag, MachineError, UsageError
from offload.loads import Arrivals, Load, LoadResult, Message
from offload.loads.ab import command, parse
from tests.loads.conftest import Server

DATA = Path(__file__).parent / "data" / "ab"
LOAD = Load("http://127.0.0.1/", users=3, seconds=None, requests=30)
installed = pytest.mark.skipif(
    shutil.which("ab") is None, reason="ab is not installed: make test-all"
)


def recorded(name: str, **more: object) -> LoadResult:
    out, err = ((DATA / f"{name}.{end}").read_text() for end in ("out", "err"))
    return parse(out, err, replace(LOAD, **more))  # type: ignore[arg-type]


def test_times_are_those_of_its_connections() -> None:
    measured = recorded("slow", requests=12)
    assert (measured.figures.completed, measured.figures.availability, measured.problem) == (
        12,
        1.0,
        None,
    )
    assert (measured.figures.elapsed_s, measured.figures.response.mean_s) == (1.41, 0.282)
    assert (measured.figures.response.p50_s, measured.figures.response.p95_s) == (0.282, 0.283)
    assert measured.figures.rate == pytest.approx(8.51, abs=0.01)
    assert measured.figures.rate_quantum == 3 / 12


def test_times_below_its_clock_are_not_known() -> None:
    measured = recorded("good", requests=300)
    assert (measured.figures.response.how, measured.figures.response.p50_s) == (
        "Little's law",
        None,
    )
    assert measured.figures.completed == 300


@pytest.mark.parametrize(
    ("name", "lost"), [("404", 30), ("500", 30), ("half", 15), ("reset", 30), ("refused", 9)]
)
def test_what_is_not_answered_well_is_counted_once(name: str, lost: int) -> None:
    measured = recorded(name)
    whole = 9 if name == "refused" else 30
    assert (measured.figures.completed, measured.figures.failed["other"]) == (whole - lost, lost)
    assert measured.figures.response.p50_s is None


def test_a_timeout_ends_it_with_its_last_words() -> None:
    assert "timeout specified has expired" in (recorded("timeout").problem or "")
    assert parse("", "", LOAD).problem == "ab printed no result: see its output"


def test_the_words_are_those_of_the_load() -> None:
    words = "ab -l -r -q -c 3 -s 30"
    assert " ".join(command(LOAD).argv) == f"{words} -n 30 {LOAD.url}"
    timed = command(replace(LOAD, requests=None, seconds=1.5, keep_alive=True)).argv
    assert " ".join(timed) == f"{words} -t 2 -n 1000000 -k {LOAD.url}"


def test_a_body_is_posted_as_what_it_looks_like() -> None:
    asked = command(replace(LOAD, message=Message("POST", '{"a": 1}')))
    assert asked.argv[-5:-1] == ("-p", "{folder}/body", "-T", "application/json")
    assert asked.files == {"body": '{"a": 1}'}


def test_amounts_that_were_changed_are_reported() -> None:
    assert recorded("slow", requests=2).notes == (Flag("rounded", "2 requests became 3"),)
    assert recorded("seconds", requests=None, seconds=1.5).notes == (
        Flag("rounded", "1.5 s became 2"),
    )


def test_what_it_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="ab has no open loop"):
        loads.check(replace(LOAD, seconds=1.0, requests=None, arrivals=Arrivals(5.0)), "ab")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineError, match="apt install apache2-utils, or use driver=builtin"):
        loads.check(LOAD, "ab")


@installed
@pytest.mark.suites
def test_it_loads_a_real_server_and_reports_its_version(server: Server) -> None:
    before = server.requests["/http10"]
    ran = loads.run(replace(LOAD, url=server.url("/http10")), "ab")
    assert (ran.result.figures.completed, server.requests["/http10"] - before) == (30, 30)
    assert ran.version == "2.3"
