"""Measure the executors, and write docs/executors.rst and lab/executors.rst; --check compares.

`python -m scripts.pages.executors_table` measures both parts, in about 20 minutes. With `pools` or
`http` it measures only that part, and takes the other one from lab/data/executors.json; `-`
measures nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from lab import DATA
from lab.pools import hops_table as hops
from lab.pools import pools_table as pools
from lab.pools.hops import Hop
from lab.pools.summary import Cell
from offload.documents.text import literal
from scripts.pages.table import main
from scripts.script import ROOT, run

FIGURES = DATA / "executors.json"
NOT_MEASURED = "Not measured yet: run ``python -m scripts.pages.executors_table``."
PARTS = {"http": ["http=yes", "format=json"], "pools": ["format=json"]}
Values = dict[str, Any]


def update_part(part: str) -> None:
    """Measure one part, and keep the figures of the other."""
    found = {**_figures(), part: _measure(part)}
    FIGURES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _figures() -> dict[str, Values]:
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def _measure(part: str) -> Values:
    """Run the command, and return the JSON that it prints."""
    command = [sys.executable, "-m", "lab", "bench_executors", *PARTS[part]]
    print(f"{part}: {' '.join(command[2:])}", file=sys.stderr)
    completed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if completed.returncode:
        sys.exit(f"{' '.join(command[2:])} ended with exit code {completed.returncode}")
    return json.loads(completed.stdout)


def _over_http() -> str:
    if not (part := _figures().get("http")):
        return NOT_MEASURED
    servers = [Hop(**values) for values in part["servers"]]
    return literal(hops.text(servers, part["missing"], part["environment"]))


def _alone() -> str:
    if not (part := _figures().get("pools")):
        return NOT_MEASURED
    cells = [Cell(**values) for values in part["cells"]]
    return literal(pools.text(cells, part["pools"], part["environment"]))


DOCUMENTS = {ROOT / "docs" / "executors.rst": _over_http, ROOT / "lab" / "executors.rst": _alone}

if __name__ == "__main__":
    run(lambda arguments: main(arguments, DOCUMENTS, FIGURES, PARTS, update_part))
