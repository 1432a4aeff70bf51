"""`fab report` of the committed runs: as text, as JSON and as reStructuredText with all rows."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import docutils.core
import docutils.nodes
import pytest

from offload.bench.records import journal
from tests import ROOT
from tests.commands import fab_here

EXAMPLES = sorted(path.parent.name for path in (ROOT / "results").glob("*/run.json"))
HEAD = ["Task", "Users", "Rate"]

Table = list[list[str]]


@pytest.fixture(autouse=True)
def _committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "RESULTS", ROOT / "results")


def reported(run: str, form: str) -> str:
    said = fab_here(f"report:{run},format={form}")
    assert (said.returncode, said.stderr) == (0, "")
    return said.stdout


def tables(document: docutils.nodes.document) -> list[Table]:
    return [
        [
            [entry.astext() for entry in row.findall(docutils.nodes.entry)]
            for row in table.findall(docutils.nodes.row)
        ]
        for table in document.findall(docutils.nodes.table)
    ]


def parsed(text: str) -> docutils.nodes.document:
    """Parse reStructuredText; whatever docutils would warn of is an exception."""
    strict = {"report_level": 1, "halt_level": 2}
    return docutils.core.publish_doctree(text, settings_overrides=strict)


def has_the_rate(line: list[str], row: dict[str, Any]) -> bool:
    """Whether a line of the table says the rate that JSON has, or that there is none."""
    if row["rate"] is None:
        return line[2].startswith("not ")
    return float(line[2].split()[0]) == pytest.approx(row["rate"], rel=0.005)


def test_there_are_committed_runs() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("run", EXAMPLES)
def test_rst_is_valid_and_its_tables_have_every_row(run: str) -> None:
    rows = json.loads(reported(run, "json"))
    shown = [table for table in tables(parsed(reported(run, "rst"))) if table[0][:3] == HEAD]
    lines = [line for _, *body in shown for line in body]
    assert len(lines) == len(rows) > 0
    for line in lines:
        assert len(line) == len(shown[0][0])
        command, _, request = line[0].partition("  ")
        own = [row for row in rows if [row["command"], str(row["users"])] == [command, line[1]]]
        own = [row for row in own if bool(row["request"]) is bool(request)]
        assert any(has_the_rate(line, row) for row in own), line
    commands = [row["command"] for row in rows]
    assert Counter(line[0].partition("  ")[0] for line in lines) == Counter(commands)


@pytest.mark.parametrize("run", EXAMPLES)
def test_rst_and_text_say_the_same(run: str) -> None:
    words = [
        [word for word in reported(run, form).replace("``", "").split() if word.strip("=-")]
        for form in ("rst", "text")
    ]
    assert words[0] == words[1]
