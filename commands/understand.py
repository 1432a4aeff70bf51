"""Understand: what a run says."""

from __future__ import annotations

from invoke import Context

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
