"""The command faults: the fault lab."""

from __future__ import annotations

import sys
from dataclasses import replace

from invoke import Context, Exit

from offload.cli import arguments, command
from offload.errors import GateError, UsageError


@command("Maintain")
def faults(
    context: Context,
    row: str = "",
    servers: str = "",
    size: str = "full",
    clients: str = "",
    format: str = "text",  # noqa: A002 - the option's name
) -> None:
    """Inject faults into real servers, and check what they promise: fab faults:R1.

    row      one row: R1, R2, ...; default: all, in 25 minutes
    servers  names of servers, as threads+pipes; default: all of the rows
    size     full (default), or small: fewer faults and clients
    clients  number of clients of an overload; default: 1000, small 100
    format   text (default), json or rst

    Workers are killed, tasks fail or hang, clients overload servers or send slow, large and invalid
    requests, on this machine, one server at a time. Servers that promise nothing are measured for
    comparison. The exit code is 1 if a promise is broken. The findings are saved in results/.
    """
    from offload.bench.faults import lab
    from offload.bench.faults.row import SIZES
    from offload.bench.records import journal
    from offload.bench.telemetry.host import environment
    from offload.reports.tables import faults_table

    arguments.one_of("format", format, "text", "json", "rst")
    if size not in SIZES:
        raise UsageError(f"size={size[:50]!r} is unknown", f"choose from {', '.join(SIZES)}")
    wanted = SIZES[size]
    if clients:
        count = arguments.whole_number("clients", clients, 1, 20_000)
        wanted = replace(wanted, overload_clients=count)
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
    if format == "json":
        print(faults_table.as_json(found))
    else:
        print(faults_table.render(found, "rst" if format == "rst" else "simple"))
    if format == "text":
        print(f"\n{faults_table.summary(found)}; {folder}")
    if any(each.is_broken for each in found):
        raise GateError(faults_table.summary(found))
