"""Understand: what a run says."""

from __future__ import annotations

import sys

from invoke import Context

from offload.cli import arguments, command
from offload.cli.plan_run import start_errors_as_run_errors
from offload.errors import StorageError, UsageError
from offload.registry import catalog


@command("Understand")
def report(context: Context, run: str = "", format: str = "text") -> None:  # noqa: A002
    """Print the table of a run, the newest unless named.

    run     its folder in results/, such as example
    format  text, json or rst
    """
    from offload.bench.records import journal
    from offload.reports import json_rows, results_txt

    arguments.one_of("format", format, "text", "json", "rst")
    folder = journal.named(run) if run else journal.newest()
    records = journal.read(folder)
    if not records:
        raise StorageError(f"{folder} has no record that can be read: name another by report:RUN")
    if format == "json":
        print(json_rows.as_json(records), end="")
    else:
        print(results_txt.tables(records, "rst" if format == "rst" else "simple"), end="")


@command("Understand")
def gil(
    context: Context,
    task: str = "",
    workers: str = "4",
    python: str = "",
    path: str = "",
    format: str = "text",  # noqa: A002
) -> None:
    """Say what the GIL costs a task, and what follows: fab gil:xml_feedparser_sync.

    task     its name, or package.module:function, or path/to/file.py:function
    workers  threads, and processes, 4 unless given
    python   the interpreter, this one unless given, as fab pythons names it
    path     a folder that a task of your own imports from
    format   text unless given, or json

    A task that fails ends it with exit code 5.
    """
    from offload.bench.experiments import gil_cost
    from offload.reports.gil import cost as worded
    from offload.suites import Case

    arguments.one_of("format", format, "text", "json")
    if not task:
        raise UsageError("which task? fab gil:TASK with one that fab list names, or of your own")
    name = catalog.find_task(task).name
    count = arguments.whole("workers", workers, 1, 256)
    threads, processes = (
        Case(
            server,
            name,
            users=2 * count,  # keep all workers busy; more would only wait longer
            settings={"workers": count},
            python=python or None,
            path=arguments.folder("path", path),
        )
        for server in ("threads", "processes")
    )
    with start_errors_as_run_errors():
        found = gil_cost.measure_gil_cost(
            threads, processes, lambda words: print(words, file=sys.stderr)
        )
    print(worded.as_json(found) if format == "json" else worded.text(found))


@command("Understand")
def claims(context: Context, suite: str = "", run: str = "", format: str = "text") -> None:  # noqa: A002
    """Judge what published benchmarks claim by the newest run of each, and audit their figures.

    suite   one of them; all unless given, or those of the run
    run     a folder in results/ to judge by instead, such as example; its verdicts are kept there
    format  text unless given, or json

    Verdicts on all of them are kept in results/claims.rst, with what each claims and by whom.
    """
    from offload.bench.records import journal
    from offload.cli import suite_claims
    from offload.reports.claims import capacity_checks, sentences
    from offload.reports.claims import verdicts as report

    arguments.one_of("format", format, "text", "json")
    suites, all_of_them = (
        suite_claims.select_suites(suite, run),
        suite_claims.select_suites("", run),
    )
    found, passed, sources = suite_claims.evaluate_suites(suites, run)
    kept = (journal.named(run) if run else journal.RESULTS) / "claims.rst"
    told = f"what each claims, by whom: {kept}"
    if suites == all_of_them:
        journal.check_writable()
        more = (
            capacity_checks.table(passed, "rst"),
            sentences.rst(suite_claims.published_claims(suites)),
        )
        journal.replace(kept, report.rst(found, sources, *more))
    else:
        told = f"what each claims, by whom: fab claims writes it to {kept}"
    example = f"example-{suite or 'tornado'}"
    if not any(judged.run for judged in found) and (journal.RESULTS / example).exists():
        told += f"\nfab claims:run={example} judges the run that is committed"
    if format == "json":
        print(report.as_json(found), end="")
    else:
        parts = [
            report.text(found),
            capacity_checks.table(passed),
            "\n".join([*sources, told]),
        ]
        print("\n\n".join(part for part in parts if part))
