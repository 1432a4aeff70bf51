"""Maintain: whether the method itself holds here."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from invoke import Context

from offload.cli import arguments, command
from offload.errors import GateError, RunError

if TYPE_CHECKING:
    from offload.bench.experiments.hops import Hop

WORKERS = 2  # of the pools whose promises are checked


@command("Maintain")
def pythons(context: Context) -> None:
    """Name the interpreters that servers can run in, and how to get others."""
    from offload.bench.target import interpreters

    for python in interpreters.found():
        gil = "GIL" if python.gil_enabled else "no GIL"
        print(f"{python.name:6}  {python.version:8}  {gil:6}  {python.source:8}  {python.path}")
    for name, path in interpreters.misnamed().items():
        print(f"{name:6}  {'missing':16}  {'PYTHONS':8}  {path}")
    print("\nA server takes one by python=3.14, a case by 3@3.14/sleep_sync; 3.13t-gil and")
    print("3.13t-nogil are a free-threaded build with PYTHON_GIL=1 and =0. To get another:")
    print("  uv python install 3.14t            or pyenv install 3.14t")
    print("  scripts/python_from_debian 3.14    in Debian: newer packages, unpacked apart")
    print("  scripts/python_free_threaded 3.13  in Debian: built from the source package")
    print("  PYTHONS=3.14=/path/of/python       names one that is elsewhere")


@command("Maintain")
def check_method(context: Context, visits: str = "300", run: str = "") -> None:
    """Judge the method by real visits: accuracy, coverage, A/A and power, in 20 minutes.

    visits  of one case, which are resampled: 300 unless given, and no fewer for a judgement
    run     judge the visits of this folder in results/ again instead
    """
    from offload.bench.experiments import method_check
    from offload.bench.records import journal
    from offload.reports import method_verdicts

    count = arguments.whole("visits", visits, 10, 10_000)
    folder = journal.named(run) if run else method_check.measure_visits(count)
    found = method_check.check_records(journal.read(folder))
    print(method_verdicts.text(found))
    print(f"records: {folder}")
    if failed := [result.name for result in found if result.passed is not True]:
        raise GateError(f"the method does not hold here: {', '.join(failed)}")


@command("Maintain")
def bench_executors(
    context: Context,
    quick: bool = False,
    workers: str = "2",
    http: bool = False,
    format: str = "text",  # noqa: A002
) -> None:
    """Measure every pool of workers that is here against the standard one, in 15 minutes.

    quick    in 2 minutes, with shorter moments and without 64 tasks of 10 MB at once
    workers  of each pool, 2 unless given
    http     instead, what each adds to a request of a server, beside other servers, in 6 minutes
    format   text unless given, json or rst
    """
    arguments.one_of("format", format, "text", "json", "rst")
    count = arguments.whole("workers", workers, 1, 64)
    form = "rst" if format == "rst" else "simple"
    words, told = (_over_http if http else _pools)(quick, count, form)
    print(json.dumps(told, indent=2) if format == "json" else words)


def _pools(quick: bool, workers: int, form: str) -> tuple[str, object]:
    """Measure the pools; give the tables, and what they are made of."""
    from offload.bench.pools import run as pools
    from offload.bench.pools import summary
    from offload.bench.telemetry import host
    from offload.reports import pools as report

    lines = pools.measure_pools(quick, workers, _print_progress)
    found, here = summary.summarize(lines), host.of_pools(workers)
    return report.text(found, lines, here, form), report.as_dict(found, lines, here)


def _over_http(quick: bool, workers: int, form: str) -> tuple[str, object]:
    """Measure the servers that have the pools; give the table, and what it is made of."""
    from offload.bench.telemetry import host
    from offload.reports import hops as report

    servers, missing = _servers(quick, workers)
    if not servers:
        raise RunError(f"no server has figures: {'; '.join(missing.values())}")
    found = servers, missing, host.of_pools(workers)
    return report.text(*found, form), report.as_dict(*found)


def _servers(quick: bool, workers: int) -> tuple[list[Hop], dict[str, str]]:
    """Measure the servers that have the pools; give what they did, and why others did nothing."""
    from offload.bench.experiments import hops

    measured = hops.measure_servers(quick, workers, _print_progress)
    if measured.records:
        print(f"records: {measured.folder}", file=sys.stderr)
    return hops.summarize(measured.records), hops.left_out(measured)


@command("Maintain")
def check_executors(context: Context, quick: bool = False) -> None:
    """Judge pipepool by what it promises, with 2 workers each, in 22 minutes.

    quick  in 4 minutes, with intervals too wide for most promises
    """
    from offload.bench.pools import targets
    from offload.bench.telemetry import host
    from offload.reports import method_verdicts

    lines = targets.measure_promises(quick, WORKERS, _print_progress)
    servers, missing = _servers(quick, WORKERS)
    found = targets.check_promises(lines, servers, targets.is_polling(WORKERS))
    print(f"{host.of_pools(WORKERS)}\n\n{method_verdicts.text(found)}")
    for why in missing.values():
        print(f"Left out: {why}.")
    if failed := [result for result in found if result.passed is not True]:
        words = [f"{result.name}: {result.measured}, asked {result.required}" for result in failed]
        raise GateError(f"not shown here: {'; '.join(words)}: once more without other load")


def _print_progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
