"""The lines that allocate memory which stays are the user's, with the share of what stays."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from offload.serving.metrics import kept_memory

PROGRAM = """
import json

kept = []

def document(rows):
    return json.dumps([{"row": row} for row in range(rows)])

def work():
    kept.append(document(200))
    return len(document(2000))

class Cycle:
    def __init__(self):
        self.own, self.data = self, bytearray(1 << 16)
"""


@pytest.mark.unit
def test_what_stays_is_that_of_the_users_innermost_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASK_PATH", str(tmp_path))
    (tmp_path / "rows.py").write_text(PROGRAM)
    program = runpy.run_path(str(tmp_path / "rows.py"))
    kept_memory.trace()
    for _ in range(20):
        program["work"]()
        program["Cycle"]()  # only a collection frees it
    [line] = kept_memory.end_trace()
    expected = PROGRAM.splitlines().index(
        '    return json.dumps([{"row": row} for row in range(rows)])'
    )
    assert {**line, "share": None} == {
        "function": "document",
        "file": "rows.py",
        "line": expected + 1,
        "share": None,
    }
    assert line["share"] > 0.9


@pytest.mark.unit
def test_nothing_stays_of_work_that_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(PROGRAM)
    program = runpy.run_path(str(tmp_path / "rows.py"))
    kept_memory.trace()
    program["Cycle"]()
    assert kept_memory.end_trace() == []
    assert kept_memory.end_trace() == []  # no trace
