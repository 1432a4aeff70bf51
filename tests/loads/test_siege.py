"""siege's counts are corrected where they are too high; recorded outputs are of siege 4.0.7."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from offload import loads
from offload.errors import Flag
from offload.loads import Load, Message
from offload.loads.siege import command, parse
from tests.loads.conftest import Server

DATA = Path(__file__).parents[1] / "data" / "siege"
LOAD = Load("http://127.0.0.1/", users=3, seconds=2.0)
installed = pytest.mark.skipif(
    shutil.which("siege") is None, reason="siege is not installed: make test-all"
)


def recorded(name: str) -> loads.LoadResult:
    return parse((DATA / f"{name}.out").read_text(), (DATA / f"{name}.err").read_text(), LOAD)


def test_a_good_run_is_read() -> None:
    measured = recorded("good")
    assert (measured.figures.completed, measured.figures.availability) == (9897, 1.0)
    assert measured.figures.rate == pytest.approx(5962.05, abs=1)


def test_a_mean_under_siege_s_clock_is_from_littles_law() -> None:
    measured = recorded("good")
    assert measured.figures.response.how == "Little's law"
    assert measured.figures.response.mean_s == pytest.approx(3 * 1.66 / 9897)


def test_a_slow_mean_is_siege_s_own() -> None:
    said = json.loads((DATA / "good.out").read_text()) | {"response_time": 1.75}
    measured = parse(json.dumps(said), "", LOAD)
    assert (measured.figures.response.mean_s, measured.figures.response.how) == (
        1.75,
        "siege's clock of 10 ms",
    )


def test_404_is_failed_although_siege_calls_it_available() -> None:
    measured = recorded("404")
    assert (
        measured.figures.completed,
        measured.figures.failed["4xx"],
        measured.figures.availability,
    ) == (0, 11791, 0.0)


@pytest.mark.parametrize(
    ("name", "kind"), [("refused", "refused"), ("reset", "reset"), ("500", "other")]
)
def test_giving_up_is_a_problem_with_the_kind(name: str, kind: str) -> None:
    measured = recorded(name)
    assert measured.figures.failed[kind] == 258
    assert "stopped after 258" in (measured.problem or "")
    assert measured.figures.response.mean_s is None


def test_a_timeout_that_is_reported_twice_is_counted_once() -> None:
    failed = recorded("timeout").figures.failed
    assert (failed["reset"], failed["timeout"], failed["other"]) == (1, 3, 0)


def test_what_siege_does_not_report_is_none() -> None:
    assert recorded("good").figures.failed["unfinished"] is None
    assert recorded("500").figures.failed["5xx"] is None
    assert recorded("good").figures.response.p99_s is None


def test_users_that_were_capped_are_a_problem() -> None:
    measured = parse((DATA / "capped.txt").read_text(), "", LOAD)  # not only JSON
    assert measured.problem == "siege ran 2 instead of 3 users: its limit is lower"


@pytest.mark.parametrize("said", ["", "siege: cannot resolve", "{", '{"transactions": 1}'])
def test_no_result_is_a_problem_and_no_zeros(said: str) -> None:
    measured = parse(said, "", LOAD)
    assert measured.problem
    assert measured.figures.rate is None


def test_a_result_with_an_odd_key_is_a_problem_that_names_it() -> None:
    said = json.loads((DATA / "good.out").read_text())
    lacking = {key: value for key, value in said.items() if key != "longest_transaction"}
    for odd in (lacking, said | {"longest_transaction": None}):
        assert parse(json.dumps(odd), "", LOAD).problem == (
            "siege's result has no number for longest_transaction"
        )


def test_requests_that_were_rounded_are_reported() -> None:
    said = (DATA / "good.out").read_text()
    notes = parse(said, "", replace(LOAD, seconds=None, requests=100)).notes
    assert notes == (Flag("rounded", "requests=100 became 102, the same for each user"),)
    assert parse(said, "", replace(LOAD, seconds=None, requests=99)).notes == ()


def test_words_before_the_json_are_passed_over() -> None:
    said = "** a notice\nthe banner\n" + (DATA / "good.out").read_text()
    assert parse(said, "", LOAD) == recorded("good")


def test_every_setting_that_matters_is_in_its_own_file() -> None:
    made = command(replace(LOAD, keep_alive=True, timeout=7))
    config = made.files["siege.conf"].splitlines()
    assert {"connection = keep-alive", "timeout = 7", "failures = 256", "limit = 1000"} <= set(
        config
    )
    assert made.environment == {"HOME": "{folder}"}
    assert made.argv[:6] == ("siege", "-R", "{folder}/siege.conf", "-b", "-c", "3")


def test_a_batch_of_all_users_that_fails_does_not_end_it() -> None:
    made = command(replace(LOAD, users=1000))
    assert "failures = 4000" in made.files["siege.conf"].splitlines()
    out, err = ((DATA / f"refused.{end}").read_text() for end in ("out", "err"))
    assert parse(out, err, replace(LOAD, users=1000)).problem is None  # after 258 it went on


def test_requests_are_shared_among_the_users() -> None:
    assert command(replace(LOAD, seconds=None, requests=100)).argv[-3:-1] == ("-r", "34")


@installed
@pytest.mark.server
@pytest.mark.parametrize(("path", "completed"), [("/", True), ("/chunked", True), ("/404", False)])
def test_the_real_siege_agrees_with_what_was_recorded(
    server: Server, path: str, completed: bool
) -> None:
    ran = loads.run(replace(LOAD, url=server.url(path), seconds=None, requests=30), "siege")
    assert ran.result.figures.completed == (30 if completed else 0)
    assert (ran.version or "")[0].isdigit()
    assert "transactions" in ran.output


@installed
@pytest.mark.server
@pytest.mark.parametrize("driver", ["siege", "builtin"])
@pytest.mark.parametrize("body", ['{"a b": "\u00fc"}', "a=1 2&b=x"])
def test_a_body_is_posted_as_it_is(server: Server, driver: str, body: str) -> None:
    before = len(server.bodies)
    load = replace(
        LOAD, url=server.url("/"), seconds=None, requests=6, message=Message("POST", body)
    )
    assert loads.run(load, driver).result.figures.completed == 6
    assert server.bodies[before:] == [body.encode()] * 6
    said = b"json" if body[0] == "{" else b"x-www-form-urlencoded"
    assert all(head.startswith(b"POST / ") and said in head for head in server.heads[-6:])


@installed
@pytest.mark.server
def test_the_two_drivers_agree_on_what_they_count(server: Server) -> None:
    load = replace(LOAD, url=server.url("/"), seconds=None, requests=300)
    siege, builtin = (loads.run(load, name).result for name in ("siege", "builtin"))
    assert siege.figures.completed == builtin.figures.completed == 300


@installed
@pytest.mark.server
def test_siege_leaves_the_home_folder_alone(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    loads.run(replace(LOAD, url=server.url("/"), seconds=None, requests=3), "siege")
    assert list(tmp_path.iterdir()) == []
