"""Measure: the server that is running, by one load."""

from __future__ import annotations

import sys
from dataclasses import replace
from time import monotonic

from invoke import Context

from offload.cli import arguments, command
from offload.errors import RunError, UsageError
from offload.registry import catalog


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
    arrivals: str = "uniform",
    think: str = "0",
    processes: str = "1",
    format: str = "text",  # noqa: A002 - the option's name
) -> None:
    """Load the server that is running: fab run_load_test:time=30,users=25.

    time        seconds, 30 unless given (also 30s, 2m)
    users       that ask at once, each again as soon as it has its answer; 25 unless given, and at
                most 1,000 with siege; with rate= the connections there may be
    driver      as fab list names them; siege when it is installed, else builtin
    requests    stop after so many instead of after a time
    url         load this URL of this machine instead
    port        which server, when several are running
    keep_alive  yes keeps connections; a new one for each request unless given
    rate        open loop: so many requests a second, whether answered or not; with builtin
    arrivals    of an open loop: uniform unless given, or poisson
    think       seconds on average that a user waits before it asks again, 0 unless given; builtin
    processes   that builtin divides the users among, 1 unless given
    format      text unless given, or json
    """
    from offload import loads
    from offload.bench.experiments import ad_hoc_load, progress
    from offload.bench.records import journal
    from offload.bench.target import running_servers
    from offload.reports import json_rows, publish, results_txt

    arguments.one_of("format", format, "text", "json")
    arguments.one_of("arrivals", arrivals, "uniform", "poisson")
    for one, other in ((("url", url), ("port", port)), (("requests", requests), ("time", time))):
        if one[1] and other[1]:
            raise UsageError(f"{one[0]}= and {other[0]}= exclude each other: give one of them")
    wanted = arguments.whole("port", port, 1, 65535) if port else None
    load = loads.Load(
        url,
        users=arguments.whole("users", users, 1, 20_000),
        seconds=None if requests else arguments.seconds("time", time or "30", 0.1),
        requests=arguments.whole("requests", requests, 1, 10**9) if requests else None,
        keep_alive=keep_alive,
        rate=arguments.number("rate", rate, 0.001, 1e6) if rate else None,
        arrivals=arrivals,
        think=arguments.seconds("think", think, 0.0),
        processes=arguments.whole("processes", processes, 1, 64),
    )
    alone = load.rate is not None or load.think or load.processes > 1
    tool = catalog.find_driver(driver or ("builtin" if alone else loads.default_driver())).name
    facts = {} if url else running_servers.find(wanted)
    load = replace(load, url=url or f"http://127.0.0.1:{facts['port']}/")
    loads.check(load, tool)
    folder = journal.lasting_run()
    asked = f"{load.seconds:g} s" if load.seconds else f"{load.requests} requests"
    what, began = f"{load.url}: {tool}, {load.users} users, {asked}", monotonic()
    print(what, file=sys.stderr)
    with progress.live(lambda: f"{what}: {monotonic() - began:.0f} s so far"):
        record = ad_hoc_load.of_url(load, tool) if url else ad_hoc_load.of_server(facts, load, tool)
    journal.append(folder, record)
    kept = publish.publish(folder, journal.read(folder))
    if format == "json":
        print(json_rows.as_json([record]), end="")
    else:
        print(
            f"{results_txt.shortened(record.load.output)}\n\n"
            f"{results_txt.row(record)}\nrecorded in {kept}"
        )
    if record.problem is not None or not record.result.completed:
        raise RunError(
            str(record.problem or f"no request was completed: see what {load.url} answers")
        )
