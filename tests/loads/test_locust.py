"""The JSON of locust is parsed correctly; the recorded outputs are of locust 2.47.0."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from offload import loads
from offload.errors import MachineError, UsageError
from offload.loads import Load, LoadResult, Message, _run, locust
from offload.loads.locust import command, parse
from offload.registry import places
from tests.loads.conftest import Server

DATA = Path(__file__).parent / "data" / "locust"
LOAD = Load("http://127.0.0.1/", users=3, seconds=1.0, keep_alive=True)
missing = importlib.util.find_spec("locust") is None
installed = pytest.mark.skipif(missing, reason="locust is not installed: make test-all")


def recorded(name: str) -> LoadResult:
    out, err = ((DATA / f"{name}.{end}").read_text() for end in ("out", "err"))
    return parse(out, err, LOAD)


def test_times_are_those_of_its_users() -> None:
    measured = recorded("pool")
    assert (measured.figures.availability, measured.problem) == (1.0, None)
    assert measured.figures.response.mean_s == pytest.approx(0.28, abs=0.02)
    assert measured.figures.response.p50_s == pytest.approx(0.28, abs=0.02)
    assert measured.figures.rate == pytest.approx(3 / 0.28, rel=0.05)


def test_times_of_a_few_milliseconds_are_but_a_mean() -> None:
    measured = recorded("good")
    assert (measured.figures.response.how, measured.figures.response.p50_s) == (
        "locust's own",
        None,
    )
    assert 0 < (measured.figures.response.mean_s or 0) < 0.01


@pytest.mark.parametrize("name", ["404", "500", "reset", "refused"])
def test_a_failure_is_counted_and_has_no_times(name: str) -> None:
    measured = recorded(name)
    assert (measured.figures.completed, measured.figures.response.mean_s) == (0, None)
    assert (measured.figures.failed["other"] or 0) > 0


def test_what_is_no_result_is_a_problem() -> None:
    said = parse("", "error: no such option", LOAD).problem
    assert said == "locust printed no result: error: no such option"
    assert parse("[]", "", LOAD).problem == "locust printed no result: see its output"


def test_the_words_are_those_of_the_load() -> None:
    argv = command(replace(LOAD, seconds=1.5, processes=2)).argv
    words = "-m locust -f {folder}/user.py --headless --json --only-summary --loglevel ERROR"
    assert argv[1:] == (*words.split(), "-u", "3", "-r", "3", "-t", "2s", "--processes", "2")


def test_what_it_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run.importlib.util, "find_spec", lambda name: True)
    with pytest.raises(UsageError, match="locust has no number of requests: use driver=builtin"):
        loads.check(replace(LOAD, seconds=None, requests=3), "locust")
    monkeypatch.setattr(_run.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match="locust is not installed: make suites, or use"):
        loads.check(LOAD, "locust")
    assert loads.default_driver("locust") == "builtin"


def test_outside_a_checkout_pip_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "CHECKOUT", None)
    found = runpy.run_path(str(locust.__file__))
    assert found["INSTALL"] == f"{sys.executable} -m pip install locust"


@installed
@pytest.mark.suites
@pytest.mark.parametrize("size", [1, 200_000])  # the environment is limited to 128 KiB
def test_a_real_server_gets_a_body_by_its_method_on_kept_connections(
    server: Server, size: int
) -> None:
    before, accepted = len(server.bodies), server.accepts["/"]
    body = f'{{"a": "{size * "ü"}"}}'
    load = replace(LOAD, url=server.url("/"), message=Message("POST", body))
    ran = loads.run(load, "locust")
    assert (ran.result.problem, ran.result.figures.availability) == (None, 1.0)
    assert (ran.version or "")[0].isdigit()
    assert set(server.bodies[before:]) == {body.encode()}
    assert b"application/json" in server.heads[-1]
    assert server.accepts["/"] - accepted <= 3
