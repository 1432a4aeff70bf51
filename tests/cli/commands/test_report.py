"""`offload report` of the committed runs: all rows as text and JSON."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from typing import Any

import pytest

from offload.engine import journal
from tests import ROOT, schemas
from tests.commands import fab_here

EXAMPLES = sorted(path.parent.name for path in (ROOT / "results").glob("example*/run.json"))
HEAD = ["Server/task", "Users", "Rate"]
WIDE = 100


@pytest.fixture(autouse=True)
def _committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "RESULTS", ROOT / "results")


@functools.cache
def reported(run: str, form: str) -> str:
    """Return the report of a committed run, which is the same for all tests."""
    said = fab_here(f"report:{run},format={form}")
    assert (said.returncode, said.stderr) == (0, "")
    return said.stdout


def table_lines(text: str) -> list[list[str]]:
    """Return the cells of each row below HEAD, and each detail of a row as one cell."""
    found = []
    for part in text.split("\n\n"):
        head, bar, *lines = [*part.splitlines(), "", ""][:-1]
        if head.split()[:3] == HEAD:
            ends = [match.span() for match in re.finditer("-+", bar)]
            for line in filter(None, lines):
                is_row = line[0] != " "
                found.append([line[a:b].strip() for a, b in ends] if is_row else [line.strip()])
    return found


def has_the_rate(line: list[str], row: dict[str, Any]) -> bool:
    """Whether a line of the table says the rate that JSON has, or that there is none."""
    if row["rate"] is None or line[2].startswith("not "):
        return row["rate"] is None and line[2].startswith("not ")
    return float(line[2].split()[0]) == pytest.approx(row["rate"], rel=0.005)


def test_there_are_committed_runs() -> None:
    assert len(EXAMPLES) >= 6


def test_an_answer_whose_rows_are_set_ups_has_no_second_table_of_the_same_rates() -> None:
    text = reported("example-advise", "text")
    assert text.startswith("Deploy ")
    assert "format=json" in text.splitlines()[-1]
    assert not table_lines(text)


@pytest.mark.parametrize("run", [run for run in EXAMPLES if run != "example-advise"])
def test_the_tables_have_every_row(run: str) -> None:
    rows = json.loads(reported(run, "json"))["rows"]
    body = table_lines(reported(run, "text"))
    lines = [line for line in body if len(line) > 1]  # the others are details of a row
    assert len(lines) == len(rows) > 0
    assert len(body) >= len(lines) + sum(bool(row["request"]) for row in rows)
    shown_cases = Counter[tuple[str, str]]()
    for line in lines:
        own = [row for row in rows if is_of(line[0], row)]
        users = [row for row in own if line[1] == str(row["users"])]
        assert any(has_the_rate(line, row) for row in users), line
        shown_cases[own[0]["server"], own[0]["task"]] += 1
    assert shown_cases == Counter((row["server"], row["task"]) for row in rows)


def is_of(cell: str, row: dict[str, Any]) -> bool:
    """Whether the first cell of a line has the case of a row, whose task may be shortened."""
    server, _, task = cell.partition(" ")[0].partition("/")
    is_task = task == row["task"]
    if task.startswith("..."):
        is_task = row["task"].endswith(task.removeprefix("..."))
    return bool(server == row["server"] and is_task)


@pytest.mark.parametrize("run", EXAMPLES)
def test_no_line_of_a_report_is_wider_than_a_terminal(run: str) -> None:
    lines = reported(run, "text").splitlines()
    assert len(lines) >= 15
    assert [line for line in lines if len(line) > WIDE] == []


@pytest.mark.parametrize("run", EXAMPLES)
def test_json_is_by_its_schema(run: str) -> None:
    assert schemas.validate("report", reported(run, "json")) == 1


def test_json_has_the_effect_of_each_task_that_was_measured_in_threads_and_processes() -> None:
    found = json.loads(reported("example-tornado", "json"))
    effects = {effect["task"]: effect for effect in found["effects"]}
    both = [
        {row["task"] for row in found["rows"] if row["server"] == server and row["rate"]}
        for server in ("threads", "processes")
    ]
    assert effects.keys() == both[0] & both[1] >= {"sleep_sync"}
    assert len(found["effects"]) == len(effects)
    assert all((e["one"], e["other"]) == ("threads", "processes") for e in effects.values())
    slow = effects["network_https_cpu_bound_sync"]
    assert 1.7 < slow["ratio_low"] < slow["ratio"] < slow["ratio_high"] < 2.3
    assert (slow["verdict"], slow["rounds"]) == ("faster", 8)
    assert effects["sleep_sync"]["verdict"] == "same"
    assert found["machine"]["cores"] == 2
