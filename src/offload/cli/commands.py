"""The commands that are no studies, and those of studies, which stand in their folders."""

from __future__ import annotations

import json
import os
import socket
import sys
import textwrap
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from offload import options, studies
from offload.cli import runner
from offload.cli.completion import SCRIPTS
from offload.cli.program import command
from offload.cli.runner import TerminalRunner
from offload.errors import MachineError, RunError, UsageError, records_of_others
from offload.options import application_task, arguments
from offload.registry import addresses, catalog, entries, places
from offload.studies import Command, Run, suite

if TYPE_CHECKING:
    from offload.loads import Load, Sender
    from offload.suites import Case, Placement, Request

WIDTH = 100  # columns
CONNECT_S = 5.0  # timeout of the connection that checks url= of `run_load_test`
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
    together = tuple(block for block in plan.blocks if not block.measured_alone)
    short = replace(plan, blocks=together, rule=replace(plan.rule, budget_s=BUDGET_S))
    terminal = TerminalRunner()
    terminal.answer(suite.STUDY, terminal.measure(short, open), format)


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


# Serve


@command("Serve")
def run_server(
    server: options.RunServerServer = "",
    task: options.Task = "",
    port: options.RunServerPort = 8000,
    *,
    python: options.RunServerPython = "",
    app: options.App = "",
    path: options.Path = None,
    settings: options.Settings = options.Settings(),
) -> None:
    """Serve a task with a server until Ctrl-C.

    Examples:
      offload run_server 3 network_sync
      offload run_server uvicorn_httptools app=shop.web:app
    """
    from offload.engine import running_servers

    if app and task:
        raise UsageError("app= and a task exclude each other", "use one of them")
    work = application_task(app) if app else task
    running_servers.exec_server(_case(server, work, settings, python or None, path), port)


@command("Serve")
def run_upstream(
    *,
    latency: options.RunUpstreamLatency = 0.0,
    port: options.RunUpstreamPort = None,
) -> None:
    """Serve the upstream of the network tasks, HTTP and HTTPS, until Ctrl-C.

    Example: offload run_upstream latency=0.05
    """
    from offload.engine import running_servers

    values: dict[str, object] = {"latency_s": latency}
    if port is not None:
        running_servers.check_port(port)
        values["port"] = port
    _exec_module("offload.upstream", json.dumps(values))


@command("Serve")
def build_octopus_db(
    rows: options.BuildOctopusDbRows = 1_000_000,
) -> None:
    """Build the database of the Django servers in 10 s, and verify it by a hash."""
    _exec_module("offload.serving.frameworks.octopus", str(rows))


def _exec_module(module: str, *options: str) -> None:
    """Replace this process by a module of this package that runs as a program."""
    command = [sys.executable, "-P", "-m", module, *options]
    os.execve(sys.executable, command, os.environ | places.import_path())  # noqa: S606 - the point


def _case(
    server: str, task: str, settings: options.Settings, python: str | None, path: str | None
) -> Case:
    from offload.suites import Case

    if not server:
        known = ", ".join(f"{e.number or ''} {e.name}".strip() for e in catalog.servers().values())
        fix = f"use offload run_server NUMBER [TASK] with one of {known}"
        raise UsageError("no server given", fix)
    chosen: dict[str, object] = {key: value for key, value in vars(settings).items() if value}
    defaults = catalog.find_server(server).settings
    for key in (key for key in entries.MAXIMA if key in chosen):
        limit = entries.maximum(key, defaults.get(key))
        chosen[key] = arguments.whole_number(key, str(chosen[key]), 1, limit)
    entries.check_product(chosen, defaults)
    name = catalog.find_server(server).name
    return Case(
        name, task or catalog.default_task(server), settings=chosen, python=python, path=path
    )


# One load test of a running server


@command("Serve")
def run_load_test(
    time: options.RunLoadTestTime = None,
    users: options.RunLoadTestUsers = 25,
    driver: options.RunLoadTestDriver = "",
    *,
    requests: options.RunLoadTestRequests = None,
    url: options.RunLoadTestUrl = "",
    port: options.RunLoadTestPort = None,
    keep_alive: options.KeepAlive = False,
    rate: options.RunLoadTestRate = None,
    arrivals: options.Arrivals = "",
    think: options.RunLoadTestThink = 0.0,
    load_processes: options.RunLoadTestLoadProcesses = 1,
    message: options.RequestOptions = options.RequestOptions(),
    hosts: options.HostOptions = options.HostOptions(),
    allow: options.RunLoadTestAllow = "",
    pin: options.Pin = "",
    format: options.Format = "text",
) -> None:
    """Run a load test of the running server.

    Examples:
      offload run_load_test
      offload run_load_test time=30 users=25
      offload run_load_test rate=100 arrivals=poisson
    """
    from offload import loads
    from offload.engine import running_servers
    from offload.suites import Request

    url = arguments.one_line("url", url)
    for one, other in (
        (("url", url), ("port", port)),
        (("url", url), ("pin", pin)),
        (("url", url), ("request", message.request)),
        (("url", url), ("beside", message.beside)),
        (("requests", requests), ("time", time)),
    ):
        if one[1] and other[1]:
            raise UsageError(f"{one[0]}= and {other[0]}= exclude each other", "use one of them")
    if arrivals and not rate:
        raise UsageError("arrivals= needs rate=, the rate of an open loop", "give both")
    sent = message.parse() or Request()
    load = loads.Load(
        url,
        users=users,
        seconds=None if requests else time or 30.0,
        requests=requests,
        keep_alive=keep_alive,
        message=sent.message,
        think=think,
        processes=load_processes,
        arrivals=None if rate is None else loads.Arrivals(rate, arrivals or "uniform"),
    )
    if allow and not url:
        raise UsageError("allow= needs url=", "name the URL to load")
    place = options.parse_placement(hosts.from_, pin, load.processes)
    sender = replace(
        place.sender, allow=addresses.parse_names("allow", allow, "shop.test+10.0.0.5")
    )
    needs_builtin = load.arrivals is not None or load.think or load.processes > 1 or place.hosts
    tool = catalog.find_driver(
        driver or ("builtin" if needs_builtin else loads.default_driver())
    ).name
    facts = {} if url else running_servers.find_server(port)
    own = "" if url else addresses.server_url(facts.get("bind"), facts["port"]).removesuffix("/")
    load = replace(load, url=url or f"{own}{sent.path}")
    loads.check(load, tool, sender)
    if place.hosts:
        hosts.connect()
    elif url:
        _check_listens(url)
    _measure(load, tool, sender, facts, sent, place, format)


def _check_listens(url: str) -> None:
    """Raise RunError if nothing accepts connections at a URL: load tools retry for seconds."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        what = f"no connection to {host}:{port}: {error.strerror or error}"
        raise RunError(what, "start the server, or correct url=") from None


def _measure(
    load: Load,
    tool: str,
    sender: Sender,
    facts: dict[str, object],
    sent: Request,
    place: Placement,
    form: str,
) -> None:
    """Run a load, record it and print it; raise RunError if it has no figures.

    `facts` are those of the server; empty if the load has a URL of its own.
    """
    from offload import loads
    from offload.documents import results_files
    from offload.engine import journal, running_servers
    from offload.engine.load_phase import BUILTIN
    from offload.engine.progress import live
    from offload.errors import printable

    folder = journal.lasting_run()
    amount = f"{load.seconds:g} s" if load.seconds else f"{load.requests} requests"
    shown = loads.mask_query(load.url)
    description = f"{shown}: {tool}, {load.users} users, {amount}{place.label}"
    started = monotonic()
    print(description, file=sys.stderr)
    with live(lambda: f"{description}: {monotonic() - started:.0f} s elapsed"):
        record = (
            running_servers.load_server(facts, load, tool, sent, place)
            if facts
            else running_servers.load_url(load, tool, sender)
        )
    journal.append(folder, record)
    path = results_files.publish(folder, journal.read(folder))
    if form == "json":
        print(results_files.rows_as_json([record]), end="")
    else:
        if tool != BUILTIN:  # its output has only the figures that the table has
            print(f"{results_files.shortened_output(record.load.output)}\n")
        print(f"{printable(results_files.load_test_text(record))}\nrecorded in {path}")
    if record.problem is not None or not record.result.completed:
        what = record.problem or f"no request was completed: check the responses of {shown}"
        raise RunError(str(what))
    if lost := [host for host in record.load.hosts if host.problem is not None]:
        reasons = "; ".join(f"host {host.host}: {host.problem}" for host in lost)
        raise RunError(f"the figures are not those of all hosts: {reasons}")


@command("Serve")
def load_host() -> None:
    """Send this host's share of a load; run_load_test from= starts this by SSH."""
    from offload.loads.hosts import agent

    if sys.stdin.isatty():
        raise UsageError("load_host is started by SSH", "use offload run_load_test from=HOST")
    agent.main()


# A run: continue it, report it, show it while it is measured


@command("Measure")
def resume(
    run: options.ResumeRun = "",
    *,
    hosts: options.HostOptions = options.HostOptions(),
    open: options.Open = False,
    format: options.ResumeFormat = "text",
) -> None:
    """Continue an interrupted run; finished rounds are not repeated.

    Example: offload resume
    """
    from offload.engine import journal

    arguments.one_of("format", format, *studies.formats())
    folder = journal.find_run(run) if run else journal.newest_unfinished()
    unfinished = journal.load_plan(folder)
    study = studies.find_study(unfinished.suite)
    arguments.one_of("format", format, *study.formats)
    with study.reserve():
        if journal.is_due(unfinished, folder):
            if unfinished.is_masked:
                what = "sends a header, a body or a parameter whose value is not in its file"
                raise UsageError(f"{folder.name} {what}", "start a new run by its command")
            if any(case.placement.hosts for case in unfinished.cases):
                hosts.connect()
            runner.check(unfinished)
            study.check_plan(unfinished)
            if open:
                runner.start_page(folder)
        records = runner.continue_run(unfinished, folder)
        with records_of_others(folder.name):
            TerminalRunner().answer(study, Run(folder, unfinished, records), format)


@command("Understand")
def report(
    run: options.ReportRun = "",
    *,
    runs: options.ReportRuns = "",
    format: options.ReportFormat = "text",
    open: options.ReportOpen = False,
) -> None:
    """Print the GIL effects and the table of a run, or write its report in HTML.

    Examples:
      offload report example
      offload report format=html open=yes
    """
    if run and runs:
        raise UsageError("run= and runs= exclude each other", "use one of them")
    if open and format != "html":
        raise UsageError("open=yes needs format=html", "leave it out")
    names = runs.split("+") if runs else [run]
    found = runner.find_runs(names)
    with records_of_others("+".join(folder.name for folder in found)):
        if format == "html":
            runner.open_report(found, open)
        else:
            runner.print_runs(found, format)


@command("Understand")
def live(
    run: options.LiveRun = "",
    *,
    open: options.LiveOpen = False,
) -> None:
    """Show a run in a browser while it is measured, and its report at the end.

    It prints the address of a page on 127.0.0.1, which contains a random word, and serves it until
    Ctrl-C, or until the run has ended and no browser was connected for 3 minutes (LIVE_MINUTES).
    With open=yes, quick, run_suite, measure, compare and others serve this page in the background.

    Example: offload live open=yes
    """
    import asyncio

    from offload.documents.live import server
    from offload.documents.live.view import RunView
    from offload.engine import journal
    from offload.engine.progress import newest_running

    seconds = runner.page_idle_s()
    folder = journal.find_run(run) if run else newest_running() or journal.newest()

    def show(url: str) -> None:
        if open:
            runner.show_page(url)
        else:
            print(url, flush=True)

    with suppress(KeyboardInterrupt):  # the usual end
        try:
            asyncio.run(server.serve(RunView(folder), seconds, show))
        except OSError as error:
            what = f"no port of 127.0.0.1 can be used: {error.strerror}"
            raise MachineError(what, "check the network of this machine") from error


# Maintain


@command("Maintain")
def pythons() -> None:
    """List the interpreters that can run servers, and how to install others."""
    from offload.engine.server import broken_names, find_interpreters

    for python in find_interpreters():
        gil = "GIL" if python.gil_enabled else "no GIL"
        print(f"{python.name:6}  {python.version:8}  {gil:6}  {python.source:8}  {python.path}")
    for name, path in broken_names().items():
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
def completion(
    shell: options.CompletionShell = "bash",
) -> None:
    """Print the script by which a shell completes commands.

    Example: eval "$(offload completion bash)"
    """
    arguments.one_of("shell", shell, *SCRIPTS)
    print(SCRIPTS[shell], end="")


# The commands of studies


def register(name: str, each: Command[Any]) -> None:
    """Add a command, whose options are those of the study."""

    def run(given: Any) -> None:
        each.run(given, TerminalRunner())

    run.__name__, run.__doc__ = name, each.options.__doc__
    run.__annotations__ = {"given": each.options, "return": None}
    run.__defaults__ = (each.options(),)
    command(each.group)(run)


for each, found in studies.commands().items():
    register(each, found)
