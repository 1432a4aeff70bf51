"""Downloading sources: a failure is one line and is stored for a while; results are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import running, sources


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "FOLDER", tmp_path)
    return tmp_path


def test_a_failure_is_one_line_and_is_stored(folder: Path) -> None:
    tries = []

    def fails(_: Path) -> None:
        tries.append(1)
        raise sources.Unavailable("no network\nand more")

    for _ in range(2):
        with pytest.raises(sources.Unavailable) as caught:
            sources._once("x-1", fails)
        assert str(caught.value) == "the tests of x-1 cannot be fetched: no network"
    assert len(tries) == 1
    assert not list(folder.glob("*.partial"))


def test_fetched_sources_are_kept() -> None:
    got = sources._once("x-1", lambda folder: (folder / "file").touch())
    assert (got / "file").is_file()
    assert sources._once("x-1", lambda _: pytest.fail("it is here already")) == got


def test_a_command_that_fails_is_named_with_its_last_line() -> None:
    with pytest.raises(sources.Unavailable, match=r"^sh: second$"):
        sources._run(["sh", "-c", "echo first >&2; echo second >&2; exit 3"])


def test_a_peer_that_cannot_be_fetched_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: str) -> Path:
        raise sources.Unavailable("the tests of x cannot be fetched: no network")

    monkeypatch.setattr(sources, "fetch", fetch)
    peer = running.Peer("x", files=(), sample=())
    with pytest.raises(pytest.skip.Exception, match="no network"):
        running.check(peer, "file.py::test")


@pytest.mark.parametrize(
    ("outcome", "table", "verdict"),
    [
        ("passed", None, None),
        ("failed", None, pytest.fail.Exception),
        ("skipped", None, pytest.fail.Exception),
        ("failed", "better", None),
        ("passed", "better", AssertionError),
        ("failed", "left_out", None),
        ("passed", "left_out", AssertionError),
        ("failed", "faults", pytest.xfail.Exception),
        ("passed", "faults", AssertionError),
    ],
)
def test_a_wrong_entry_in_a_table_fails(
    monkeypatch: pytest.MonkeyPatch,
    outcome: str,
    table: str | None,
    verdict: type[BaseException] | None,
) -> None:
    line = {"test": "file.py::test", "when": "call", "outcome": outcome}
    report = running.Report([line], "", 0)
    monkeypatch.setattr(running, "run", lambda *_: report)
    tables = {table: {"test": "a reason"}} if table else {}
    peer = running.Peer("x", files=(), sample=(), **tables)
    if verdict is None:
        running.check(peer, "file.py::test")
    else:
        with pytest.raises(verdict):
            running.check(peer, "file.py::test")


def test_the_most_specific_key_of_a_table_is_used() -> None:
    forms = running.forms("file.py::Class::test[a::b]")
    assert forms == [
        "Class::test[a::b]",
        "test[a::b]",
        "Class::test",
        "test",
        "Class",
        "file.py",
    ]


def test_what_does_not_pass_in_a_sample_is_checked_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = {"test": "file.py::good", "when": "call", "outcome": "passed"}
    monkeypatch.setattr(running, "run", lambda *_: running.Report([line], "", 0))
    checked: list[str] = []
    monkeypatch.setattr(running, "check", lambda _, test: checked.append(test))
    tests = ("file.py::good", "file.py::missing")
    running.check_sample(running.Peer("x", files=(), sample=tests))
    assert checked == ["file.py::missing"]
