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

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.hops import Hop  # noqa: E402 - it is found by the line above
from bench.pools import Cell  # noqa: E402
from reports import hops, pools  # noqa: E402

DOCUMENT, FIGURES = ROOT / "docs" / "executors.rst", ROOT / "docs" / "executors.json"
BEGIN, END = ".. table-begin\n\n", "\n\n.. table-end"
HALVES = {"http": ["http=yes", "format=json"], "pools": ["format=json"]}
Values = dict[str, Any]


def main(words: list[str]) -> int | str:
    """Measure, or only render; return the exit code, or what is wrong."""
    if words == ["--check"]:
        is_as_figures = DOCUMENT.read_text() == _rendered()
        fix = "scripts/executors_table.py -"
        return 0 if is_as_figures else f"{DOCUMENT} is not as {FIGURES} is: {fix}"
    halves = [] if words == ["-"] else words or [*HALVES]
    if unknown := [half for half in halves if half not in HALVES]:
        return f"no half is called {unknown[0]!r}: {', '.join(HALVES)}, -, --check or none"
    for half in halves:
        found = {**_figures(), half: _measured(half)}
        FIGURES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        DOCUMENT.write_text(_rendered())
    DOCUMENT.write_text(_rendered())
    return 0


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


def _rendered() -> str:
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    return before + BEGIN + "\n\n".join(_tables(_figures())) + END + rest.partition(END)[2]


def _tables(found: dict[str, Values]) -> Iterator[str]:
    if not found:
        yield "Not measured yet: ``scripts/executors_table.py`` does."
    if half := found.get("http"):
        servers = [Hop(**values) for values in half["servers"]]
        yield "**Over HTTP.** " + hops.text(servers, half["missing"], half["environment"], "rst")
    if half := found.get("pools"):
        cells = [Cell(**values) for values in half["cells"]]
        yield "**The pools alone.** " + pools.text(cells, half["pools"], half["environment"], "rst")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
