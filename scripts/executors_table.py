"""Measure the executors, and put the tables into docs/executors.rst; --check only compares.

scripts/executors_table.py measures both halves, in some 20 minutes; `pools` or `http` behind it
that one, and keeps the other as it is in docs/executors.json; `-` renders what is there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _script import ROOT, run
from _table import main

from offload.bench.experiments.hops import Hop
from offload.bench.pools.summary import Cell
from offload.reports import hops, pools

DOCUMENT, FIGURES = ROOT / "docs" / "executors.rst", ROOT / "docs" / "executors.json"
HALVES = {"http": ["http=yes", "format=json"], "pools": ["format=json"]}
Values = dict[str, Any]


def measure(half: str) -> None:
    """Measure one half, and keep the other."""
    found = {**_figures(), half: _measured(half)}
    FIGURES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _figures() -> dict[str, Values]:
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def _measured(half: str) -> Values:
    """Run the command as anybody would, and take what it prints."""
    command = [Path(sys.executable).with_name("fab"), f"bench_executors:{','.join(HALVES[half])}"]
    print(f"{half}: {command[-1]}", file=sys.stderr)
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if ran.returncode:
        sys.exit(f"{command[-1]} ended with exit code {ran.returncode}")
    return json.loads(ran.stdout)


def _tables() -> Iterator[str]:
    if not (found := _figures()):
        yield "Not measured yet: ``scripts/executors_table.py`` does."
    if half := found.get("http"):
        servers = [Hop(**values) for values in half["servers"]]
        yield "**Over HTTP.** " + hops.text(servers, half["missing"], half["environment"], "rst")
    if half := found.get("pools"):
        cells = [Cell(**values) for values in half["cells"]]
        yield "**The pools alone.** " + pools.text(cells, half["pools"], half["environment"], "rst")


if __name__ == "__main__":
    run(
        lambda words: main(
            words, DOCUMENT, FIGURES, lambda: "\n\n".join(_tables()), HALVES, measure
        )
    )
