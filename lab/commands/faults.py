"""The commands faults and soak: single faults, and faults for minutes, in real servers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lab.commands import command
from offload.cli.program import Exit
from offload.errors import GateError, UndecidedError, UsageError
from offload.options import arguments

LONGEST_SOAK = 600.0  # minutes


@command
def faults(
    row: str = "",
    servers: str = "",
    size: str = "full",
    clients: str = "",
    kills: str = "",
    format: str = "text",  # noqa: A002 - the option's name
) -> None:
    """Inject faults into real servers, and check what they promise: python -m lab faults R1.

    row      one row: R1, R2, ...; default: all, in 45 minutes
    servers  names of servers, as threads+pipes; default: all of the rows
    size     full (default), or small: fewer faults and clients
    clients  number of clients of an overload; default: 1000, small 100
    kills    number of kills of a worker (R1), and of a benchmark (R15); default: 6, small 2
    format   text (default) or json

    Workers are killed, tasks fail or hang, clients overload servers or send slow, large and invalid
    requests, on this machine, one server at a time. Servers that promise nothing are measured for
    comparison. The exit code is 1 if a promise is broken. The findings are saved in results/.
    """
    from lab.faults import faults_table, lab
    from lab.faults.row import SIZES
    from offload.engine import journal
    from offload.engine.host import environment

    arguments.one_of("format", format, "text", "json")
    if size not in SIZES:
        raise UsageError(f"size={size[:50]!r} is unknown", f"choose from {', '.join(SIZES)}")
    wanted = SIZES[size]
    if clients:
        count = arguments.whole_number("clients", clients, 1, 20_000)
        wanted = replace(wanted, overload_clients=count)
    if kills:
        wanted = replace(wanted, kills=arguments.whole_number("kills", kills, 1, 10_000))
    chosen = lab.select(row, servers.split("+") if servers else [])
    journal.check_writable()
    folder = journal.new_run("faults")
    found: list[lab.Finding] = []
    try:
        for each in lab.findings(chosen, wanted):
            found.append(each)
            lab.save(folder, wanted, environment(), found)
            print(f"[{each.row}] {each.server}: {each.figure or 'not available'}", file=sys.stderr)
    except KeyboardInterrupt:
        raise Exit(f"interrupted: {len(found)} findings are in {folder}", code=130) from None
    note = "" if wanted.name == "full" else "size=small: fewer clients and faults than named; "
    _print(
        format,
        partial(faults_table.as_json, found),
        partial(faults_table.render, found),
        f"{note}{faults_table.summary(found)}; {folder}",
    )
    if broken := [f"{each.row} of {each.server}" for each in found if each.is_broken]:
        raise GateError(f"broken: {', '.join(broken)}", "its row of the table states what failed")


@command
def soak(
    minutes: str = "10",
    servers: str = "",
    task: str = "",
    seed: str = "1",
    format: str = "text",  # noqa: A002 - the option's name
) -> None:
    """Check that servers do not grow under load and faults: python -m lab soak minutes=10.

    minutes  duration, after a warm-up of at most 1 minute; default: 10
    servers  names of servers, as threads+pipes; default: sync, loop, threads, processes, pipes,
             pebble and prefork, side by side
    task     a task, or path/to/file.py:function; default: a mix of tasks, some of which fail
    seed     a whole number that selects the times of kills and the faulty requests; default: 1
    format   text (default) or json

    Workers are killed, and clients disconnect, stall or send invalid requests. Once a second the
    memory, descriptors and threads of all processes are read. The exit code is 1 if a server grows,
    and 7 if an interval is too wide for a verdict. The findings are saved in results/.
    """
    from lab.soak import plan, run, soak_file, soak_table
    from lab.soak.finding import UNKNOWN
    from lab.soak.growth import Series
    from offload.engine import journal
    from offload.engine.host import environment

    arguments.one_of("format", format, "text", "json")
    planned = plan.Plan(
        seconds=60 * arguments.number("minutes", minutes, 0.05, LONGEST_SOAK),
        servers=tuple(dict.fromkeys(servers.split("+"))) if servers else plan.SERVERS,
        task=task or plan.MIXED,
        seed=arguments.whole_number("seed", seed, 0, 10**9),
    )
    plan.check(planned.servers)
    journal.check_writable()
    folder = journal.new_run("soak")
    series: dict[str, Series] = {}
    try:
        found = run.run(
            planned, series, lambda line: print(f"[soak] {line}", file=sys.stderr, flush=True)
        )
    except KeyboardInterrupt:
        soak_file.save_readings(folder, series)
        raise Exit(f"interrupted: the readings so far are in {folder}", code=130) from None
    soak_file.save(folder, planned, environment(), found)
    soak_file.save_readings(folder, series)
    _print(
        format,
        partial(soak_table.as_json, found),
        partial(soak_table.render, found),
        f"{soak_table.summary(found)}; {folder}",
    )
    if broken := [each.server for each in found if each.is_broken]:
        raise GateError(f"not flat: {', '.join(broken)}", "its line in the table has the figures")
    if unknown := [each.server for each in found if each.verdict == UNKNOWN]:
        raise UndecidedError(
            f"no verdict on {', '.join(unknown)}", "run it for longer, on an idle machine"
        )


def _print(form: str, as_json: Callable[[], str], render: Callable[[], str], summary: str) -> None:
    """Print findings as JSON, or as their table with a summary."""
    print(as_json() if form == "json" else f"{render()}\n\n{summary}")
