"""Update the tables and included files in README.rst; --check only compares."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from _script import ROOT
from _table import between

from offload.bench.records import journal
from offload.cli import suite_claims
from offload.reports import summary
from offload.reports.claims import verdicts as claims
from offload.reports.rows import rows
from offload.suites import tornado

README = ROOT / "README.rst"
SHOWN = ("tasks/noop.py", "servers/threads.py")


def render(text: str) -> str:
    """Return the README with its current tables and included files."""
    text = between(text, "table", [_table()])
    text = between(text, "claims", [verdicts(ROOT / "results")])
    return between(text, "include", [_code(ROOT / name) for name in SHOWN])


def _table() -> str:
    published = {(case.server, case.task) for case in tornado.PUBLISHED}
    found = rows(journal.read(ROOT / "results" / "example"))
    kept = [row for row in found if (row.first.case.server, row.first.case.task) in published]
    return f"{summary.table(kept, 'rst')}\n\n{summary.conditions(kept)}"


def verdicts(results: Path) -> str:
    """Evaluate each suite by the committed example that measured it; omit suites without one.

    A suite's own example takes precedence over results/example, which lacks some rows of tornado.
    """
    found = {}
    for folder in sorted({results / "example", *results.glob("example-*")}):
        records = journal.read(folder)
        for suite in suite_claims.measured_suites(records):
            own = [record for record in records if record.trial.suite == suite]
            found[suite] = suite_claims.evaluate_suite(suite, own)
    return claims.short([verdict for verdicts in found.values() for verdict in verdicts])


def _code(path: Path) -> str:
    return f".. code-block:: python\n\n{textwrap.indent(path.read_text().rstrip(), '    ')}"


if __name__ == "__main__":
    before = README.read_text()
    after = render(before)
    if sys.argv[1:] == ["--check"]:
        sys.exit("README.rst does not match its sources: run make readme" if after != before else 0)
    README.write_text(after)
