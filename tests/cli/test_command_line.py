"""The run.json of a run has the words of its command, without secrets."""

from __future__ import annotations

import shlex

import pytest

from offload import command_line
from offload.cli import commands, runner
from offload.cli.program import OFFLOAD
from offload.engine import journal
from offload.engine.record import Record
from offload.errors import RunError
from tests.commands import fab_here, offload_here

assert commands  # imported before a test replaces a part of them


@pytest.fixture(autouse=True)
def _not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> list[Record]:
        raise RunError("not measured")

    monkeypatch.setattr(runner, "continue_run", end)


def test_a_run_has_the_words_that_start_it_again() -> None:
    words = ["measure", "3/noop_sync", "users=2", "--request", "/quote/7", "keep_alive=yes"]
    assert "not measured" in offload_here(*words).stderr
    [first] = journal.RESULTS.glob("*-measure*")
    assert journal.load_argv(first) == words
    again = shlex.split(shlex.join(journal.load_argv(first) or []))
    offload_here(*again)
    one, other = map(journal.load_plan, journal.RESULTS.glob("*-measure*"))
    assert one.cases == other.cases


def test_the_words_of_fab_are_stored_as_those_of_offload() -> None:
    fab_here("measure:3/noop_sync,users=2")
    words = journal.load_argv(journal.newest_unfinished()) or []
    assert words == ["measure", "--case=3/noop_sync", "--users=2"]
    assert OFFLOAD.parse(words[0], words[1:])


def test_a_plan_that_is_saved_again_keeps_the_words_of_its_command() -> None:
    offload_here("measure", "3/noop_sync")
    folder = journal.newest_unfinished()
    with command_line.used(["resume", folder.name]):
        journal.save_plan(journal.load_plan(folder), folder)
    assert journal.load_argv(folder) == ["measure", "3/noop_sync"]


@pytest.mark.parametrize(
    ("word", "stored"),
    [
        (["--header=X-Key: secret"], ["--header=***"]),
        (["--header", "X-Key: secret"], ["--header", "***"]),
        (["header=X-Key: secret"], ["header=***"]),
        (["body=secret"], ["body=***"]),
        (["request=/q?key=secret"], ["request=***"]),
        (["request=/q"], ["request=/q"]),
        (["--body", "@file"], ["--body", "@file"]),
    ],
)
def test_a_value_that_may_be_secret_is_masked(word: list[str], stored: list[str]) -> None:
    with command_line.used(["measure", *word]):
        assert [*command_line.argv] == ["measure", *stored]


def test_a_run_of_an_older_version_has_no_words() -> None:
    folder = journal.new_run("measure")
    assert journal.load_argv(folder) is None
    (folder / journal.RUN_FILE).write_text('{"cases": []}')
    assert journal.load_argv(folder) is None


@pytest.mark.parametrize(
    "words",
    [
        ["3/noop_sync", "header=Authorization:", "s3cret"],
        ["3/noop_sync", "Authorization: s3cret"],
        ["3/noop_sync", "--Authorization: s3cret"],
        ["3/noop_sync", "3", "https://user:s3cret@shop.test/"],
        ["https://user:s3cret@shop.test/"],
        ["3/noop_sync", "request=https://user:s3cret@shop.test/"],
    ],
)
def test_an_error_in_a_command_line_shows_no_secret(words: list[str]) -> None:
    done = offload_here("measure", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize(
    "url", ["user:s3cret@127.0.0.1/", "http://user:s3cret@[::1/", "tcp://user:s3cret@127.0.0.1/"]
)
def test_an_error_in_a_url_shows_no_credentials(url: str) -> None:
    done = offload_here("run_load_test", f"url={url}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "s3cret" not in done.stderr


def test_an_error_of_a_value_with_a_comma_shows_no_secret() -> None:
    done = offload_here("measure:3/noop_sync,header=A: s3cret,s4cret")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "s3cret" not in done.stderr
    assert "s4cret" not in done.stderr
