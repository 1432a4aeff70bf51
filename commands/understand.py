"""Understand: what a run says."""

from __future__ import annotations

from invoke import Context

import catalog
import values
from commands import command


@command("Understand")
def report(context: Context, run: str = "", format: str = "text") -> None:  # noqa: A002
    """Print the table of a run, the newest unless named.

    run     its folder in results/, such as example
    format  text, json or rst
    """
    from bench import journal
    from reports import as_json, text

    values.one_of("format", format, "text", "json", "rst")
    records = journal.read(journal.named(run) if run else journal.newest())
    if format == "json":
        print(as_json.as_json(records), end="")
    else:
        print(text.tables(records, "rst" if format == "rst" else "simple"), end="")


@command("Understand")
def claims(context: Context, suite: str = "", run: str = "", format: str = "text") -> None:  # noqa: A002
    """Judge what published benchmarks claim by the newest run of each, and audit their figures.

    suite   one of them; all unless given
    run     a folder in results/ to judge by instead, such as example
    format  text unless given, or json
    """
    from bench import journal
    from commands import _claims
    from reports import claims as report

    values.one_of("format", format, "text", "json")
    names = [catalog.find_suite(suite).name] if suite else [*catalog.suites()]
    found, sources = _claims.judged(names, run)
    kept = journal.RESULTS / "claims.rst"
    journal.check_writable()
    journal.replace(kept, report.rst(found, sources))
    if format == "json":
        print(report.as_json(found), end="")
    else:
        print(report.text(found))
        print("\n".join(["", *sources, f"written to {kept}"]))
