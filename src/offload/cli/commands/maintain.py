"""The commands pythons, completion, check_method, bench_executors and check_executors."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from invoke import Context, Exit

from offload.cli import arguments, command, output
from offload.cli.answers import print_answer
from offload.cli.plan_run import continue_run, start_run
from offload.errors import GateError, UsageError

if TYPE_CHECKING:
    from offload.bench.experiments.hops import Hop

WORKERS = 2  # per pool in `check_executors`


@command("Maintain")
def pythons(context: Context) -> None:
    """List the interpreters that can run servers, and how to install others."""
    from offload.bench.target import interpreters

    for python in interpreters.find_all():
        gil = "GIL" if python.gil_enabled else "no GIL"
        print(f"{python.name:6}  {python.version:8}  {gil:6}  {python.source:8}  {python.path}")
    for name, path in interpreters.broken_names().items():
        print(f"{name:6}  {'missing':16}  {'PYTHONS':8}  {path}")
    print(
        "\nSelect one for a server by python=3.14, for a case by 3@3.14/sleep_sync; 3.13t-gil and"
    )
    print("3.13t-nogil are a free-threaded build with PYTHON_GIL=1 and =0. To install others:")
    print("  uv python install 3.14t            or pyenv install 3.14t")
    print("  scripts/install/python_from_debian 3.14    on Debian: newer packages, kept separately")
    print("  scripts/install/python_free_threaded 3.13  on Debian: built from the source package")
    print("  PYTHONS=3.14=/path/of/python       adds one in another place")


@command("Maintain")
def completion(context: Context, shell: str = "bash") -> None:
    """Print the script by which a shell completes commands: eval "$(fab completion:bash)".

    shell  bash (default), zsh or fish
    """
    from offload.cli.completion import SCRIPTS

    arguments.one_of("shell", shell, *SCRIPTS)
    print(SCRIPTS[shell], end="")


@command("Maintain")
def check_method(context: Context, blocks: str = "60", rounds: str = "", run: str = "") -> None:
    """Check this tool's statistics against a known truth, in an hour and a half.

    blocks  number of comparisons of a case with itself, each measured until it has a verdict; half
            as many compare two tasks that differ by 20 %; default: 60 (an hour), the minimum for a
            reliable check
    rounds  number of rounds of a single server, which are resampled; default: 300 (20 minutes)
    run     continue this run in results/, and check its records; its number of blocks stays the
            same, and rounds of a single server are added only with rounds=

    To continue an interrupted check, use run= or fab resume.
    """
    from offload.bench.experiments import method_check
    from offload.bench.planning import plan_file, planned_records, runs

    count = arguments.whole_number("blocks", blocks, 0, 10_000)
    wanted = rounds or ("0" if run else "300")
    alone = 0 if wanted == "0" else arguments.whole_number("rounds", wanted, 10, 10_000)
    if run:
        folder = runs.find(run)
        planned = plan_file.load(folder)
        if planned.suite != method_check.SUITE:
            fix = f"use fab resume:{folder.name}"
            raise UsageError(f"{folder.name} is a run of {planned.suite}, not of check_method", fix)
        continue_run(planned, folder)
    else:
        planned = method_check.blocks_plan(count)
        folder, _ = start_run(planned)
    try:
        method_check.measure_alone(folder, alone)
    except KeyboardInterrupt:
        hint = f"continue with fab check_method:run={folder.name},rounds={alone}"
        raise Exit(f"interrupted: {hint}", code=130) from None
    print_answer(planned, folder, planned_records.read(folder), "text")


@command("Maintain")
def bench_executors(
    context: Context,
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
    format   text (default), json or rst
    """
    arguments.one_of("format", format, "text", "json", "rst")
    count = arguments.whole_number("workers", workers, 1, 64)
    if http:
        from offload.bench.experiments import hops

        plan = hops.servers_plan(quick, count)
        print_answer(plan, *start_run(plan), format)
        return
    text, data = _pools(quick, count, "rst" if format == "rst" else "simple")
    print(json.dumps(data, indent=2) if format == "json" else text)


def _pools(quick: bool, workers: int, form: str) -> tuple[str, object]:
    """Measure the pools; return the tables as text, and their data."""
    from offload.bench.pools import run as pools
    from offload.bench.pools import summary
    from offload.bench.telemetry import host
    from offload.reports.tables import pools as report

    lines = pools.measure_pools(quick, workers, output.print_progress)
    found, here = summary.summarize(lines), host.pool_conditions(workers)
    return report.text(found, lines, here, form), report.as_dict(found, lines, here)


def _servers(quick: bool, workers: int) -> tuple[list[Hop], dict[str, str]]:
    """Measure the servers that use the pools; return the results, and the missing servers."""
    from offload.bench.experiments import hops
    from offload.bench.records.run_records import RunRecords

    folder, records = start_run(hops.servers_plan(quick, workers))
    print(f"records: {folder}", file=sys.stderr)
    windows = RunRecords(records).windows()
    return hops.summarize(windows), hops.missing_servers(windows)


@command("Maintain")
def check_executors(context: Context, quick: bool = False) -> None:
    """Check the performance targets of pipepool with 2 workers per pool, in 22 minutes.

    quick  4 minutes, with intervals that are too wide for most targets
    """
    from offload.bench.pools import targets
    from offload.bench.telemetry import host
    from offload.reports.tables import method_verdicts

    lines = targets.measure_targets(quick, WORKERS, output.print_progress)
    servers, missing = _servers(quick, WORKERS)
    results = targets.check_targets(lines, servers, targets.is_polling(WORKERS))
    print(f"{host.pool_conditions(WORKERS)}\n\n{method_verdicts.text(results)}")
    for why in missing.values():
        print(f"Left out: {why}.")
    if failed := [result for result in results if result.passed is not True]:
        details = [
            f"{result.name}: {result.measured}, required {result.required}" for result in failed
        ]
        raise GateError(f"targets not met: {'; '.join(details)}", "repeat without other load")
