"""The commands run_load_test and load_host: one load test of a running server."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from offload import options
from offload.cli.program import command
from offload.errors import RunError, UsageError
from offload.options import arguments
from offload.registry import addresses, catalog

if TYPE_CHECKING:
    from offload.loads import Load, Sender
    from offload.suites import Placement, Request

CONNECT_S = 5.0  # timeout of the connection that checks url=


@command("Measure")
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
        print(
            f"{results_files.shortened_output(record.load.output)}\n\n"
            f"{printable(results_files.load_test_text(record))}\nrecorded in {path}"
        )
    if record.problem is not None or not record.result.completed:
        what = record.problem or f"no request was completed: check the responses of {shown}"
        raise RunError(str(what))
    if lost := [host for host in record.load.hosts if host.problem is not None]:
        reasons = "; ".join(f"host {host.host}: {host.problem}" for host in lost)
        raise RunError(f"the figures are not those of all hosts: {reasons}")


@command("Measure")
def load_host() -> None:
    """Send this host's share of a load; run_load_test from= starts this by SSH."""
    from offload.loads.hosts import agent

    if sys.stdin.isatty():
        raise UsageError("load_host is started by SSH", "use run_load_test:from=HOST")
    agent.main()
