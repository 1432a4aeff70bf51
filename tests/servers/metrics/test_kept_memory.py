"""The lines that allocate memory which stays are the user's, with the share of what stays."""

from __future__ import annotations

import runpy
import tracemalloc
from pathlib import Path

import pytest

from offload.engine.hot_lines import KEEPS, read_kept_lines
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
    found = kept_memory.end_trace()
    [line] = found["lines"]
    expected = PROGRAM.splitlines().index(
        '    return json.dumps([{"row": row} for row in range(rows)])'
    )
    assert {**line, "share": None} == {
        "function": "document",
        "file": "rows.py",
        "line": expected + 1,
        "share": None,
        "doing": KEEPS,
    }
    assert line["share"] > 0.9
    assert 0.03 < found["mib"] < 3.0


@pytest.mark.unit
def test_nothing_stays_of_work_that_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(PROGRAM)
    program = runpy.run_path(str(tmp_path / "rows.py"))
    kept_memory.trace()
    program["Cycle"]()
    assert kept_memory.end_trace()["lines"] == []
    assert kept_memory.end_trace() == {"mib": 0.0, "lines": []}  # no trace


@pytest.mark.unit
def test_a_trace_of_the_application_itself_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(PROGRAM)
    program = runpy.run_path(str(tmp_path / "rows.py"))
    tracemalloc.start(1)
    program["kept"].append(bytearray(1 << 20))
    kept_memory.trace()
    program["work"]()
    found = kept_memory.end_trace()
    assert found["mib"] < 0.5


@pytest.mark.unit
def test_lines_are_unknown_if_hardly_anything_of_a_leak_was_seen() -> None:
    line = {"function": "f", "file": "a.py", "line": 7, "share": 0.9, "doing": KEEPS}
    reports = [{"mib": 3.0, "lines": [line]}, {"mib": 2.0, "lines": [{**line, "share": 0.95}]}]
    first, second = read_kept_lines(reports, leaked_mib=10.0)
    assert (first.share, second.share) == (0.95, 0.9)
    assert read_kept_lines(reports, leaked_mib=10.2) == ()
    with pytest.raises(ValueError, match="mib"):
        read_kept_lines([{"lines": []}], leaked_mib=0.0)
