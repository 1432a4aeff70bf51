"""The commands quick, doctor and list: a first table, a check of this machine, all names."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace

from offload import options
from offload.cli.program import command
from offload.cli.runner import TerminalRunner
from offload.errors import MachineError
from offload.registry import catalog, entries
from offload.studies import suite

WIDTH = 100  # columns
BUDGET_S = 292.0  # s of measuring in `quick`, which takes 5 minutes in total


@command("Start here")
def quick(
    *,
    driver: options.QuickDriver = "",
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Measure the 14 rows of the main benchmark in 5 minutes, and print the table.

    Example: offload quick
    """
    plan = suite.suite_plan("tornado", "published", driver, is_quick=True, target=None)
    together = tuple(block for block in plan.blocks if not block.apart)
    short = replace(plan, blocks=together, rule=replace(plan.rule, budget_s=BUDGET_S))
    runner = TerminalRunner()
    runner.answer(suite.STUDY, runner.measure(short, open), format)


@command("Start here")
def doctor() -> None:
    """Check whether this machine can measure now; print a remedy for each problem."""
    from offload.cli import doctor as doctors

    found = doctors.findings()
    for finding in found:
        print(f"{finding.level:7}  {finding.name:16}  {finding.message}")
    if wrong := [finding.name for finding in found if finding.level == doctors.WRONG]:
        raise MachineError("a run would not be valid now", f"see {', '.join(wrong)}")


@command("Start here")
def list() -> None:  # noqa: A001 - the command's name
    """List every server, task, load driver and suite."""
    kinds = {
        "Servers": catalog.servers(),
        "Tasks": catalog.tasks(),
        "Load drivers": catalog.drivers(),
        "Suites": catalog.suites(),
    }
    for kind, found in kinds.items():
        width = max(map(len, found), default=0)
        print(kind)
        for entry in found.values():
            number = "" if entry.number is None else str(entry.number)
            summary = entry.summary.removeprefix(f"{entry.name}: ")
            print(_row(f"  {number:1} {entry.name:{width}}  ", summary))
            for word, task in entry.also.items():
                print(f"    {word:{width}}  The same with {task}.")
        print()
    for words in entries.find_incomplete(catalog.FOLDER / "servers").values():
        print(f"left out: {words}", file=sys.stderr)
    print(
        "A task of your own: package.module:function (with path=FOLDER) or path/to/file.py:function"
    )
    print("An application of your own: app=package.module:name (with path=FOLDER), served by")
    names = ", ".join(catalog.servers_of())
    print(textwrap.fill(names, WIDTH, initial_indent="  ", subsequent_indent="  "))


def _row(head: str, summary: str) -> str:
    """Return a name and its summary, which continues in its own column."""
    indent = " " * len(head)
    return textwrap.fill(summary, WIDTH, initial_indent=head, subsequent_indent=indent) or head
