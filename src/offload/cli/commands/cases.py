"""The commands measure, compare and scale: one case, two cases, a case in several sizes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from invoke import Context

from offload.cli import arguments, case_options, command
from offload.cli.answers import print_answer
from offload.cli.plan_run import show, start_run, with_load
from offload.errors import UsageError
from offload.registry import catalog, setting_limits

if TYPE_CHECKING:
    from offload.suites import Case

MOST_SIZES = 36  # of a grid: each takes about half a minute


@command("Measure")
def measure(
    context: Context,
    case: str = "",
    users: str = "25",
    keep_alive: bool = False,
    target: str = "",
    quick: bool = False,
    app: str = "",
    path: str = "",
    request: str = "",
    method: str = "",
    body: str = "",
    header: str = "",
    from_: str = "",
    bind: str = "",
    pin: str = "",
    open: bool = False,  # noqa: A002
    format: str = "text",  # noqa: A002
) -> None:
    """Measure one case until its rate is known to +-2 %: offload measure 3/sleep_sync.

    The measurement also ends after the last round, or after 60 s of load (180 s below
    2 requests/s). The interval is then wider.

    Your own application: offload measure granian_asgi app=shop.web:app request=/quote/7.

    case        SERVER/TASK, or with app= only SERVER; SERVERx16 has 16 workers,
                SERVER@3.14 runs in Python 3.14
    users       concurrent users; each waits for a response before its next request; default: 25
    keep_alive  yes: keep connections open; default: a new connection for each request
    target      half-width of the interval in percent; default: 2, with quick 5
    quick       at most 7 rounds instead of 40
    app         your own ASGI or WSGI application, served unchanged, instead of a task:
                package.module:name, its factory as package.module:create_app(), or the settings
                module of Django
    path        a folder from which your own task or application imports
    request     the path to request, such as /quote/7?size=2; default: /
    method      the request's method; default: GET, with body POST
    body        the request's body, or with @FILE the content of a file
    header      'Name: value' to send, several as 'A: 1; B: 2', or @FILE with one in each line
    from        hosts that send the load together by SSH, as a+user@b:2222 (or fab -H a,b); default:
                this machine; see docs/how_to/load_hosts.rst
    bind        with from=: the address of this machine at which the hosts reach the server
    pin         yes: the load tool uses the last CPU and the server the others; or the CPUs of the
                server and of the tool, as 0-2/3
    open        yes: show the run live in a browser: see offload live
    format      text (default) or json

    The exit code is 5 if a server does not start or all its requests fail.
    """
    from offload.bench.planning import blocks, plan

    arguments.one_of("format", format, "text", "json")
    share = arguments.number("target", target, 0.1, 50.0) / 100 if target else None
    user_count = arguments.whole_number("users", users, 1, 20_000)
    user_request = case_options.request_of(request, method, body, header)
    one = case_options.complete(case_options.case(case, app), path, user_request)
    one = case_options.with_placement(one, context, from_, bind, pin)
    cases = with_load([one], user_count, keep_alive)
    one_block = (blocks.Block((0,)),)
    seed = plan.new_seed()
    planned = plan.Plan(
        "measure", cases, seed, driver=None, quick=quick, target=share, blocks=one_block
    )
    _, records = start_run(planned, open)
    show(records, format)


@command("Measure")
def compare(
    context: Context,
    one: str = "",
    other: str = "",
    users: str = "25",
    keep_alive: bool = False,
    quick: bool = False,
    app: str = "",
    path: str = "",
    request: str = "",
    method: str = "",
    body: str = "",
    header: str = "",
    open: bool = False,  # noqa: A002
    format: str = "text",  # noqa: A002
) -> None:
    """Compare the rates of two cases: offload compare 3/sleep_sync 4/sleep_sync.

    one         SERVER/TASK, or with app= only SERVER; SERVERx16 has 16 workers,
                SERVER@3.14 runs in Python 3.14
    other       the case to compare with it
    users       concurrent users; each waits for a response before its next request; default: 25
    keep_alive  yes: keep connections open; default: a new connection for each request
    quick       at most 7 rounds instead of 40; differences below 5 % instead of 2 % do not matter
    app         your own ASGI or WSGI application, served unchanged, instead of a task:
                package.module:name, its factory as package.module:create_app(), or the settings
                module of Django
    path        a folder from which your own task or application imports
    request     the path to request, such as /quote/7?size=2; default: /
    method      the request's method; default: GET, with body POST
    body        the request's body, or with @FILE the content of a file
    header      'Name: value' to send, several as 'A: 1; B: 2', or @FILE with one in each line
    open        yes: show the run live in a browser: see offload live
    format      text (default) or json

    The exit code is 5 if a server does not start or all its requests fail, and 7 if other processes
    disturbed the measurement. If some requests fail, a line reports their number; rates count only
    completed requests.
    """
    from offload.bench.experiments import paired

    arguments.one_of("format", format, "text", "json")
    user_request = case_options.request_of(request, method, body, header)
    first, second = (
        case_options.complete(case_options.case(text, app, f"{which} case"), path, user_request)
        for text, which in ((one, "first"), (other, "second"))
    )
    user_count = arguments.whole_number("users", users, 1, 20_000)
    pair = with_load([first, second], user_count, keep_alive)
    plan = paired.comparison_plan("compare", pair[0], pair[1], quick)
    folder, records = start_run(plan, open)
    print_answer(plan, folder, records, format)


@command("Measure")
def scale(
    context: Context,
    case: str = "",
    workers: str = "",
    users: str = "",
    keep_alive: bool = False,
    app: str = "",
    path: str = "",
    request: str = "",
    method: str = "",
    body: str = "",
    header: str = "",
    open: bool = False,  # noqa: A002
    format: str = "text",  # noqa: A002
    processes: str = "",
) -> None:
    """Find where more workers stop helping: offload scale 3/xml_lxml_sync workers=1..16.

    case        SERVER/TASK, or with app= only SERVER; SERVER@3.14 runs in Python 3.14
    workers     numbers of workers to measure (of processes, if the server has no workers): a
                range 1..16, or a list 1+2+4+8
    users       numbers of users instead of workers; with workers a single number, default: 25
    keep_alive  yes: keep connections open; default: a new connection for each request
    app         your own ASGI or WSGI application, served unchanged, instead of a task:
                package.module:name, its factory as package.module:create_app(), or the settings
                module of Django
    path        a folder from which your own task or application imports
    request     the path to request, such as /quote/7?size=2; default: /
    method      the request's method; default: GET, with body POST
    body        the request's body, or with @FILE the content of a file
    header      'Name: value' to send, several as 'A: 1; B: 2', or @FILE with one in each line
    open        yes: show the run live in a browser: see offload live
    format      text (default) or json
    processes   numbers of processes that share the port; together with workers=, every pair is
                measured, and ranges double: processes=1..4 workers=8..64 are 12 sizes

    The exit code is 5 if no number has a rate, and 7 if other processes disturbed the measurement.
    """
    from offload.bench.experiments import sweep
    from offload.bench.planning import blocks, plan
    from offload.bench.stats.models import scaling

    arguments.one_of("format", format, "text", "json")
    if not workers and not users and not processes:
        raise UsageError("nothing to vary", "use workers=1..16, processes=1..4 or users=1..64")
    user_request = case_options.request_of(request, method, body, header)
    base = case_options.complete(case_options.case(case, app), path, user_request)
    is_of_sizes = bool(workers or processes)
    user_count = arguments.whole_number("users", users or "25", 1, 20_000) if is_of_sizes else 1
    [one] = with_load([base], user_count, keep_alive)
    if is_of_sizes:
        cases = _sizes(one, case, processes, workers)
    else:
        cases = sweep.cases(one, sweep.USERS, _numbers(sweep.USERS, users, 20_000))
    if len(cases) == 1:
        raise UsageError(f"{cases[0].name} alone varies nothing", "use a range, such as 1..16")
    if sweep.varied(cases) != sweep.SIZES and (few := scaling.too_few(range(len(cases)))):
        print(f"rates only, no model: {few}", file=sys.stderr)
    seed = plan.new_seed()
    planned = plan.Plan("scale", cases, seed, driver=None, quick=True, blocks=blocks.form(cases))
    folder, records = start_run(planned, open)
    print_answer(planned, folder, records, format)


def _numbers(name: str, text: str, most: int) -> list[int]:
    numbers = arguments.whole_numbers(name, text, 1, most)
    if len(numbers) == 1:
        raise UsageError(f"{name}={numbers[0]} varies nothing", f"use a range: {name}=1..16")
    return numbers


def _sizes(one: Case, case: str, processes: str, workers: str) -> tuple[Case, ...]:
    """Return a case in the sizes of the options `processes` and `workers`; raise UsageError."""
    from offload.bench.experiments import sweep

    server = catalog.find_server(one.server)
    given = {"processes": processes, "workers": workers}
    numbers: dict[str, list[int]] = {}
    for name, text in given.items():
        if not text:
            continue
        setting = name if name in server.settings else server.size or name
        if setting in one.settings:
            what = f"{case!r} has a number of {setting}, and {name}= varies it"
            raise UsageError(what, f"leave x{one.settings[setting]} out")
        most = setting_limits.maximum(setting, server.settings.get(setting))
        numbers[name] = arguments.whole_numbers(name, text, 1, most, doubles=all(given.values()))
    if len(numbers) == 1:
        [(name, only)] = numbers.items()
        found = sweep.cases(one, name, only)
    elif "workers" in server.settings:
        found = sweep.grid_cases(one, numbers["processes"], numbers["workers"])
    else:
        raise UsageError(f"{server.name} has one size", "leave processes= or workers= out")
    for each in found:
        setting_limits.check_product(each.settings, server.settings)
    if len(found) > MOST_SIZES:
        what = f"{len(found)} sizes are more than {MOST_SIZES}"
        raise UsageError(what, "list fewer: processes=1+2,workers=8+32")
    return found
