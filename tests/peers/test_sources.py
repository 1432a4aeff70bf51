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
    report = running.Report(_lines("file.py::test", outcome), "", 0)
    monkeypatch.setattr(running, "run", lambda *_: report)
    tables = {table: {"test": "a reason"}} if table else {}
    peer = running.Peer("x", files=(), **tables)
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


def test_what_does_not_pass_in_a_batch_is_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[str, ...]] = []

    def run(_: running.Peer, *tests: str) -> running.Report:
        runs.append(tests)
        return running.Report(_lines("file.py::good", "passed"), "", 0)

    monkeypatch.setattr(running, "run", run)
    with pytest.raises(pytest.fail.Exception, match=r"file\.py::missing"):
        running.check(running.Peer("x", files=()), "file.py::good", "file.py::missing")
    assert runs == [("file.py::good", "file.py::missing"), *[("file.py::missing",)] * 2]


def test_a_test_whose_process_ended_in_it_has_failed() -> None:
    lines = _lines("file.py::test", "passed")
    assert running.Report(lines, "", 0).outcome("file.py::test") == "passed"
    assert running.Report(lines[:-1], "", 0).outcome("file.py::test") == "failed"


def test_a_test_with_a_failed_subtest_has_failed() -> None:
    lines = _lines("file.py::test", "failed")[1:2] + _lines("file.py::test", "passed")
    assert running.Report(lines, "", 0).outcome("file.py::test") == "failed"


@pytest.mark.slow  # it downloads
@pytest.mark.timeout(300)
def test_only_the_sdist_with_the_pinned_hash_is_unpacked(folder: Path) -> None:
    """An archive with another hash fails in one line that names the mismatch."""
    wrong = sources.Sdist("loky", "3.7.0", "0" * 64)
    with pytest.raises(sources.Unavailable, match="HASH"):
        sources.fetch_sdist(wrong)
    assert not (folder / "loky-3.7.0").exists()


def _lines(test: str, outcome: str) -> list[dict[str, str]]:
    when = {"setup": "passed", "call": outcome, "teardown": "passed"}
    return [{"test": test, "when": key, "outcome": value} for key, value in when.items()]
