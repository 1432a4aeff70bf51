"""The commands run_load_test and load_host: one load test of a running server."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from invoke import Context

from offload.cli import arguments, case_options, command
from offload.errors import RunError, UsageError
from offload.registry import bind_address, catalog, host_names

if TYPE_CHECKING:
    from offload.loads import Load, Sender
    from offload.suites import Placement, Request

CONNECT_S = 5.0  # timeout of the connection that checks url=


@command("Measure")
def run_load_test(
    context: Context,
    time: str = "",
    users: str = "25",
    driver: str = "",
    requests: str = "",
    url: str = "",
    port: str = "",
    keep_alive: bool = False,
    rate: str = "",
    arrivals: str = "",
    think: str = "0",
    processes: str = "1",
    header: str = "",
    request: str = "",
    method: str = "",
    body: str = "",
    from_: str = "",
    allow: str = "",
    pin: str = "",
    format: str = "text",  # noqa: A002 - the option's name
) -> None:
    """Run a load test of the running server: offload run_load_test time=30 users=25.

    time        duration in seconds (also 30s, 2m); default: 30
    users       concurrent users; each waits for a response before its next request;
                default: 25, at most 1,000 with siege; with rate= the maximum number of connections
    driver      a load tool from offload list; default: siege if installed, else builtin
    requests    number of requests after which the test ends, instead of time
    url         a URL on this machine to load instead of the server; other machines need allow=
    port        port of the server, if several are running
    keep_alive  yes: keep connections open; default: a new connection for each request
    rate        open loop: requests per second, independent of responses; only with builtin
    arrivals    arrival process of an open loop: uniform (default) or poisson
    think       mean seconds between a response and the next request; default: 0; only with builtin
    processes   number of load processes of builtin, on each host; default: 1
    header      'Name: value' to send, several as 'A: 1; B: 2'; with a comma --header='A: 1, 2';
                or @FILE with one in each line, which hides them from other users of this machine;
                a URL may have user:password@; records show the values of harmless headers only
    request     the path to request from the server, such as /quote/7?size=2; default: /
    method      the request's method; default: GET, with body POST
    body        the request's body, or with @FILE the content of a file
    from        hosts that send the load together by SSH, as a+user@b:2222 (or fab -H a,b); default:
                this machine; see docs/how_to/load_hosts.rst
    allow       with url=: names of other machines that may be loaded, as a+b; only name your own
    pin         yes: the load tool uses the last CPU and the server the others; or the CPUs of the
                server and of the tool, as 0-2/3
    format      text (default) or json
    """
    from offload import loads
    from offload.bench.target import running_servers
    from offload.suites import Request

    arguments.one_of("format", format, "text", "json")
    url = arguments.one_line("url", url)
    process = arguments.one_of("arrivals", arrivals or "uniform", "uniform", "poisson")
    for one, other in (
        (("url", url), ("port", port)),
        (("url", url), ("pin", pin)),
        (("url", url), ("request", request)),
        (("requests", requests), ("time", time)),
    ):
        if one[1] and other[1]:
            raise UsageError(f"{one[0]}= and {other[0]}= exclude each other", "use one of them")
    requested_port = arguments.whole_number("port", port, 1, 65535) if port else None
    if arrivals and not rate:
        raise UsageError("arrivals= needs rate=, the rate of an open loop", "give both")
    sent = case_options.request_of(request, method, body, header) or Request()
    load = loads.Load(
        url,
        users=arguments.whole_number("users", users, 1, 20_000),
        seconds=None if requests else arguments.seconds("time", time or "30", 0.1),
        requests=arguments.whole_number("requests", requests, 1, 10**9) if requests else None,
        keep_alive=keep_alive,
        message=sent.message,
        think=arguments.seconds("think", think, 0.0),
        processes=arguments.whole_number("processes", processes, 1, 64),
        arrivals=loads.Arrivals(arguments.number("rate", rate, 0.001, 1e6), process)
        if rate
        else None,
    )
    if allow and not url:
        raise UsageError("allow= needs url=", "name the URL to load")
    place = case_options.placement(from_, pin, load.processes)
    sender = replace(place.sender, allow=host_names.parse("allow", allow, "shop.test+10.0.0.5"))
    needs_builtin = load.arrivals is not None or load.think or load.processes > 1 or place.hosts
    tool = catalog.find_driver(
        driver or ("builtin" if needs_builtin else loads.default_driver())
    ).name
    facts = {} if url else running_servers.find(requested_port)
    own = "" if url else bind_address.url(facts.get("bind"), facts["port"]).removesuffix("/")
    load = replace(load, url=url or f"{own}{sent.path}")
    loads.check(load, tool, sender)
    if place.hosts:
        case_options.use_ssh_options(context)
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
    from offload.bench.experiments import ad_hoc_load
    from offload.bench.experiments.progress import display
    from offload.bench.records import journal
    from offload.reports import json_rows, publish, results_txt
    from offload.reports.printable import printable

    folder = journal.lasting_run()
    amount = f"{load.seconds:g} s" if load.seconds else f"{load.requests} requests"
    shown = loads.mask_query(load.url)
    description = f"{shown}: {tool}, {load.users} users, {amount}{place.label}"
    started = monotonic()
    print(description, file=sys.stderr)
    with display.live(lambda: f"{description}: {monotonic() - started:.0f} s elapsed"):
        record = (
            ad_hoc_load.of_server(facts, load, tool, sent, place)
            if facts
            else ad_hoc_load.of_url(load, tool, sender)
        )
    journal.append(folder, record)
    path = publish.publish(folder, journal.read(folder))
    if form == "json":
        print(json_rows.as_json([record]), end="")
    else:
        print(
            f"{results_txt.shortened(record.load.output)}\n\n"
            f"{printable(results_txt.row(record))}\nrecorded in {path}"
        )
    if record.problem is not None or not record.result.completed:
        what = record.problem or f"no request was completed: check the responses of {shown}"
        raise RunError(str(what))
    if lost := [host for host in record.load.hosts if host.problem is not None]:
        reasons = "; ".join(f"host {host.host}: {host.problem}" for host in lost)
        raise RunError(f"the figures are not those of all hosts: {reasons}")


@command("Measure")
def load_host(context: Context) -> None:
    """Send this host's share of a load; run_load_test:from= starts this command by SSH."""
    from offload.loads.hosts import agent

    if sys.stdin.isatty():
        raise UsageError("load_host is started by SSH", "use run_load_test:from=HOST")
    agent.main()
