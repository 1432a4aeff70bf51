"""The command capacity: the highest request rate at which a case keeps a latency target."""

from __future__ import annotations

from invoke import Context

from offload.cli import arguments, case_options, command
from offload.cli.answers import print_answer
from offload.cli.plan_run import start_run, with_load
from offload.errors import UsageError

SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@command("Measure")
def capacity(
    context: Context,
    case: str = "",
    p50: str = "",
    p90: str = "",
    p95: str = "",
    p99: str = "",
    p999: str = "",
    arrivals: str = "uniform",
    keep_alive: bool = False,
    app: str = "",
    path: str = "",
    request: str = "",
    method: str = "",
    body: str = "",
    header: str = "",
    from_: str = "",
    bind: str = "",
    open: bool = False,  # noqa: A002
    format: str = "text",  # noqa: A002
) -> None:
    """Find the highest rate that keeps a latency target: offload capacity 3/sleep_sync p99=600ms.

    It sends requests to fresh servers at a fixed rate, whether or not earlier ones have a response.
    The rate is doubled until the target is missed. Then five rounds narrow it down; the interval is
    that of these rounds. This takes 2 to 3 minutes with limits up to 100 ms, and longer with higher
    ones (about 10 minutes with 600 ms), because a queue must grow up to the limit.

    case        SERVER/TASK, or with app= only SERVER; SERVERx16 has 16 workers,
                SERVER@3.14 runs in Python 3.14
    p99         limit of the 99th percentile of the response times, such as 50ms or 0.2s; or one of
                p50, p90, p95 and p999 instead
    p50         limit of the median
    p90         limit of the 90th percentile
    p95         limit of the 95th percentile
    p999        limit of the 99.9th percentile
    arrivals    uniform (default): at equal intervals; poisson: at random, as from many independent
                users, which needs more reserve
    keep_alive  yes: keep connections open; default: a new connection for each request
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
    open        yes: show the run live in a browser: see offload live
    format      text (default) or json

    The exit code is 5 if no rate keeps the target, if a load fails, or if the load generator is too
    slow for the server.
    """
    from offload.bench.analysis.latency_capacity import LatencyTarget
    from offload.bench.planning import plan

    arguments.one_of("format", format, "text", "json")
    arguments.one_of("arrivals", arrivals, "uniform", "poisson")
    limits = {"p50": p50, "p90": p90, "p95": p95, "p99": p99, "p999": p999}
    given = {name: text for name, text in limits.items() if text}
    if len(given) != 1:
        what = (
            "no latency target given" if not given else f"{' and '.join(given)} exclude each other"
        )
        raise UsageError(what, "use one, such as p99=50ms")
    [(name, limit)] = given.items()
    target = LatencyTarget(SHARES[name], arguments.response_time(name, limit) or 0.0, arrivals)
    user_request = case_options.request_of(request, method, body, header)
    one = case_options.complete(case_options.case(case, app), path, user_request)
    one = case_options.with_placement(one, context, from_, bind)
    planned = plan.Plan(
        plan.CAPACITY,
        with_load([one], one.users, keep_alive),
        plan.new_seed(),
        driver=None,
        quick=True,
        latency=target,
    )
    folder, records = start_run(planned, open)
    print_answer(planned, folder, records, format)
