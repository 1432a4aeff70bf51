"""The scripts that measure for pages print help, reject arguments and exit like the commands."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

MEASURING = ["pages.gil_table", "pages.executors_table"]


def script(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", f"scripts.{name}", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=30)


@pytest.mark.server
@pytest.mark.parametrize("name", MEASURING)
def test_help_is_the_docstring(name: str) -> None:
    said = script(name, "--help")
    first = (ROOT / "scripts" / f"{name.replace('.', '/')}.py").read_text().partition("\n")[0]
    assert (said.returncode, said.stdout.partition("\n")[0]) == (0, first.removeprefix('"""'))


@pytest.mark.server
@pytest.mark.parametrize("name", MEASURING)
def test_a_wrong_word_is_one_line_with_exit_code_2(name: str) -> None:
    said = script(name, "nosuch_task")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert said.stderr.startswith("error: no 'nosuch_task' in ")


def test_a_table_reports_what_it_has_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = importlib.import_module("scripts.pages.table")
    document, figures = tmp_path / "a.rst", tmp_path / "a.jsonl"
    document.write_text(".. table-begin\n\nold\n\n.. table-end\n")
    for words, expected in ((["one"], f"{figures}, {document}"), (["-"], f"{document}")):
        table.main(words, {document: lambda: "new"}, figures, ["one"], figures.write_text)
        assert capsys.readouterr().out == f"written: {expected}\n"
    assert (figures.read_text(), "\nnew\n" in document.read_text()) == ("one", True)
