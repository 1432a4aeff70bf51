"""A name with characters that nobody sees is printed with escapes, in the terminal and in files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.commands import FAB
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import read_line

HIDDEN = "\u202e\u2066\u200b\ufeff\u2028\u061c\x9b\U000e0041"


@pytest.mark.server
def test_no_hidden_character_reaches_the_terminal_or_a_file(tmp_path: Path) -> None:
    (tmp_path / f"a{HIDDEN}b.py").write_text("def work(): return b'x'")
    task = f"{tmp_path}/a{HIDDEN}b.py:work"
    results = tmp_path / "results"
    said = subprocess.run(
        [FAB, f"measure:3/{task},quick=yes"],
        env={**os.environ, "RESULTS": str(results), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=58,
    )
    assert said.returncode == 0, said.stderr
    files = [path for path in results.rglob("*") if path.is_file()]
    assert {"results.txt", "report.html", "run.json", "records.jsonl"} <= {p.name for p in files}
    shown = {"stdout": said.stdout, "stderr": said.stderr}
    shown |= {path.name: path.read_text("utf-8", "surrogateescape") for path in files}
    assert {name for name, text in shown.items() if {*HIDDEN} & {*text}} == set()
    assert "\\u202e" in said.stdout


@pytest.mark.server
@pytest.mark.parametrize("server", ["sync", "threads", "prefork", "plain_sync"])
def test_the_line_of_a_server_that_serves_hides_nothing(server: str, tmp_path: Path) -> None:
    (tmp_path / f"a{HIDDEN}b.py").write_text("def work(): return b'x'", "utf-8")
    process = begin(server, f"{tmp_path}/a{HIDDEN}b.py:work", "0", PYTHONUTF8="1")
    try:
        line = read_line(process.stderr)
    finally:
        process.terminate()
        wait_for_end(process)
    assert f"{server} serves {tmp_path}/a\\u202e\\u2066" in line
    assert not {*HIDDEN} & {*line}
