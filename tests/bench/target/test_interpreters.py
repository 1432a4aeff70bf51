"""Interpreters are found by label, and the label sets the GIL of a free-threaded build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from offload.engine import server
from offload.engine.server import (
    broken_names,
    filter_interpreters,
    find_interpreter,
    find_interpreters,
    gil_environment,
)
from offload.errors import UsageError
from offload.suites import Case

pytestmark = pytest.mark.usefixtures("no_other_python")


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONS", f"3.99t={sys.executable}")


@pytest.fixture
def _free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the named one for a free-threaded build."""
    facts = {"version": [3, 99, 0], "free_threaded": True, "gil_enabled": False}
    monkeypatch.setattr(server, "_probe", lambda _: facts)


@pytest.mark.usefixtures("_free")
@pytest.mark.parametrize(
    ("word", "added"),
    [("3.99t", {}), ("3.99t-gil", {"PYTHON_GIL": "1"}), ("3.99t-nogil", {"PYTHON_GIL": "0"})],
)
def test_a_free_threaded_build_is_named_with_its_gil(word: str, added: dict[str, str]) -> None:
    words, environment = server.command(Case("sync", "noop_sync", python=word), 0)
    assert (words[0], environment) == (sys.executable, added)


def test_the_gil_of_a_normal_build_cannot_be_switched() -> None:
    with pytest.raises(UsageError, match=r"the GIL of '3\.99t' cannot be switched"):
        find_interpreter("3.99t-nogil")


def test_a_path_may_end_like_a_gil_suffix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONS", f"mine-gil={sys.executable}")
    assert (find_interpreter("mine-gil"), gil_environment("mine-gil")) == (
        sys.executable,
        {},
    )


def test_missing_pythons_of_a_list_are_omitted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert filter_interpreters(["3.99t", "3.98"]) == ["3.99t"]
    assert capsys.readouterr().err.startswith(
        "left out: no Python at '3.98': offload pythons shows"
    )
    with pytest.raises(UsageError, match=r"no Python at '3\.98'"):
        filter_interpreters(["3.98"])


def test_a_python_that_is_named_twice_is_measured_once() -> None:
    assert filter_interpreters(["3.99t", "3.99t"]) == ["3.99t"]


@pytest.mark.parametrize("path", ["/nope/python3", __file__, "/bin/false"])
def test_a_broken_name_is_not_used_for_another_python(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = ".".join(map(str, sys.version_info[:2]))
    monkeypatch.setenv("PYTHONS", f"{name}={path}")
    with pytest.raises(UsageError, match=f"no Python at '{path}': fix PYTHONS"):
        find_interpreter(name)
    assert broken_names() == {name: path}
    assert name not in [python.name for python in find_interpreters()]


def test_an_interpreter_that_prints_at_its_start_is_found(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True, timeout=50
    )
    [folder] = tmp_path.glob("lib/python*/site-packages")
    (folder / "hello.pth").write_text("import sys; print('hello')\n")
    python = str(tmp_path / "bin/python")
    assert b"hello\n" in subprocess.check_output([python, "-c", ""], timeout=20)
    facts = server._probe(python)
    assert facts is not None
    assert facts["version"] == [*sys.version_info[:3]]
