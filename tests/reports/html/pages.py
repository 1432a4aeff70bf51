"""Reports of committed runs, parsed by a parser that browsers agree with."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from offload.cli import runner
from offload.documents import html_report
from offload.documents.html_sections import read_run
from offload.engine import journal
from offload.engine.record import Record
from tests import ROOT

html5lib = pytest.importorskip("html5lib")

NAMES = sorted(path.parent.name for path in (ROOT / "results").glob("example*/run.json"))
SMALL = "example-graphene_django"  # the report of make test
# An advice has a document instead of every figure.
FIGURED = [
    name if name == SMALL else pytest.param(name, marks=pytest.mark.slow)
    for name in NAMES
    if name != "example-advise"
]
EXAMPLES = [name if name == SMALL else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


def committed(name: str) -> Path:
    return ROOT / "results" / name


def written(name: str, *records: Record) -> Path:
    """Write records into a run of this name; return its folder."""
    folder = journal.RESULTS / name
    folder.mkdir(parents=True)
    journal.append(folder, *records)
    return folder


def copied(name: str) -> Path:
    """Copy a committed run into the results of a test."""
    return Path(shutil.copytree(committed(name), journal.RESULTS / name))


def rendered(*folders: Path) -> str:
    found = runner.documents(folders)
    return html_report.html([read_run(folder, found.get(folder)) for folder in folders])


@functools.cache
def example(*names: str) -> str:
    """Return the report of committed runs; it is the same for all tests."""
    return rendered(*map(committed, names))


@functools.cache
def example_root(*names: str) -> Any:
    """Return the elements of the report of committed runs."""
    return parsed(example(*names))


def parsed(html: str) -> Any:
    """Parse a page; whatever a browser would have to correct is an error."""
    builder = html5lib.treebuilders.getTreeBuilder("etree")
    parser = html5lib.HTMLParser(tree=builder, strict=True, namespaceHTMLElements=False)
    return parser.parse(html)


def words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def tables(root: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the cells of each table by its caption; of each row, by the head of the column."""
    found = {}
    for table in root.iter("table"):
        heads = [words(head) for head in table.find("thead").iter("th")]
        rows = [[*row] for row in table.find("tbody").iter("tr")]
        caption = words(table.find("caption"))
        assert caption not in found
        found[caption] = [dict(zip(heads, cells, strict=True)) for cells in rows]
    return found


def floats(cells: Sequence[Any]) -> list[float]:
    """Return the numbers of cells, as the script reads them."""
    known = [cell for cell in cells if "data-v" in cell.attrib]
    return [float(cell.attrib["data-v"] or words(cell)) for cell in known]
