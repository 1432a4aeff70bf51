"""The commands bench_executors and check_executors: compare pools of worker processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lab.commands import command
from offload.cli import program
from offload.cli.runner import start_run
from offload.errors import GateError, RunError
from offload.options import arguments

if TYPE_CHECKING:
    from lab.pools.hops import Hop
    from offload.engine.plan import Plan
    from offload.engine.record import Record

WORKERS = 2  # per pool in `check_executors`


@command
def bench_executors(
    quick: bool = False,
    workers: str = "2",
    http: bool = False,
    format: str = "text",  # noqa: A002
) -> None:
    """Compare every installed worker pool with the standard process pool, in 15 minutes.

    quick    2 minutes, with shorter slices and without 64 concurrent tasks of 10 MB
    workers  workers of each pool; default: 2
    http     yes: instead, measure the CPU that each pool adds to an HTTP request, and that of other
             servers (6 minutes)
    format   text (default) or json
    """
    arguments.one_of("format", format, "text", "json")
    count = arguments.whole_number("workers", workers, 1, 64)
    if http:
        from lab.pools import hops

        plan = hops.servers_plan(quick, count)
        _print_hops(plan, start_run(plan)[1], format)
        return
    text, data = _pools(quick, count)
    print(json.dumps(data, indent=2) if format == "json" else text)


def _pools(quick: bool, workers: int) -> tuple[str, object]:
    """Measure the pools; return the tables as text, and their data."""
    from lab.pools import pools_table as report
    from lab.pools import run as pools
    from lab.pools import summary

    lines = pools.measure_pools(quick, workers, program.print_progress)
    found, here = summary.summarize(lines), _conditions(workers)
    return report.text(found, lines, here), report.as_dict(found, lines, here)


def _servers(quick: bool, workers: int) -> tuple[list[Hop], dict[str, str]]:
    """Measure the servers that use the pools; return the results, and the missing servers."""
    from lab.pools import hops
    from offload.engine.record import RunRecords

    folder, records = start_run(hops.servers_plan(quick, workers))
    print(f"records: {folder}", file=sys.stderr)
    windows = RunRecords(records).windows()
    return hops.summarize(windows), hops.missing_servers(windows)


@command
def check_executors(quick: bool = False) -> None:
    """Check the performance targets of pipepool with 2 workers per pool, in 22 minutes.

    quick  4 minutes, with intervals that are too wide for most targets
    """
    from lab.method import method_verdicts
    from lab.pools import targets

    lines = targets.measure_targets(quick, WORKERS, program.print_progress)
    servers, missing = _servers(quick, WORKERS)
    results = targets.check_targets(lines, servers, targets.is_polling(WORKERS))
    print(f"{_conditions(WORKERS)}\n\n{method_verdicts.text(results)}")
    for why in missing.values():
        print(f"Left out: {why}.")
    if failed := [result for result in results if result.passed is not True]:
        details = [
            f"{result.name}: {result.measured}, required {result.required}" for result in failed
        ]
        raise GateError(f"targets not met: {'; '.join(details)}", "repeat without other load")


def _print_hops(plan: Plan, records: Sequence[Record], form: str) -> None:
    """Print the added CPU of each server; raise RunError if none has figures."""
    from lab.pools import hops
    from lab.pools import hops_table as report
    from offload.engine.record import RunRecords

    windows = RunRecords(records).windows()
    workers = next(int(str(c.settings["workers"])) for c in plan.cases if "workers" in c.settings)
    figures, missing = hops.summarize(windows), hops.missing_servers(windows)
    conditions = _conditions(workers)
    if not figures:
        raise RunError(f"no server has figures: {'; '.join(missing.values())}")
    if form == "json":
        print(json.dumps(report.as_dict(figures, missing, conditions), indent=2))
    else:
        print(report.text(figures, missing, conditions))


def _conditions(workers: int) -> str:
    """Return the date, this machine and the size of all pools as one line."""
    from offload.engine import host

    today = datetime.now(UTC).date().isoformat()
    return f"Measured {today} on {host.sentence(host.environment())}; {workers} workers a pool."
