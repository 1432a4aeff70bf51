"""The functions of a user are imported before a plan, so that an error is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from offload.engine.calling_process import check_imports
from offload.errors import UserError
from offload.suites import Case, Origin
from tests.commands import fab

pytestmark = pytest.mark.server
BAD = """
def needs(symbol): return symbol
def quote(): return b"42"
NAME = "quote"
"""


@pytest.mark.parametrize(
    ("task", "exit_code", "message"),
    [
        ("bad:needs", 2, "'bad:needs' needs symbol: give it arguments as 'bad:needs(@file.json)'"),
        ("bad:NAME", 2, "'NAME' in bad is not a function: name one"),
        ("missing:quote", 2, "no module 'missing'"),
        ("app=bad:NAME", 2, "NAME"),
    ],
)
def test_code_that_cannot_be_imported_is_an_error(
    task: str, exit_code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    with pytest.raises(UserError) as raised:
        check_imports([Case("threads", task, path=str(tmp_path))])
    assert (raised.value.exit_code, message in str(raised.value)) == (exit_code, True), raised.value


def test_code_of_another_checkout_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    valid = Case("threads", "bad:quote", path=str(tmp_path))
    other = Case(
        "threads", "bad:needs", path=str(tmp_path), origin=Origin("other", folder=str(tmp_path))
    )
    check_imports([valid, other, Case("threads", "noop_sync")])


@pytest.mark.parametrize("words", ["gil:{}", "compare:3/{},4/{}", "scale:3/{},workers=1..6"])
def test_commands_report_it_in_one_line_before_they_measure(words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    said = fab(words.replace("{}", f"{tmp_path}/bad.py:needs"))
    assert (said.returncode, said.stdout, "[round" in said.stderr) == (2, "", False), said.stderr
    [line] = said.stderr.splitlines()
    assert line.startswith("error: ")
    call = f"'{tmp_path}/bad.py:needs(@file.json)'"  # quoted for a shell
    assert f"needs symbol: give it arguments as {call}" in line
