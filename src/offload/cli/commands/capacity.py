"""The command capacity: the highest request rate at which a case keeps a latency target."""

from __future__ import annotations

from offload import options
from offload.cli.answers import print_answer
from offload.cli.plan_run import start_run, with_load
from offload.cli.program import command
from offload.errors import UsageError

SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@command("Measure")
def capacity(
    case: options.CaseText = "",
    *,
    p50: options.CapacityP50 = None,
    p90: options.CapacityP90 = None,
    p95: options.CapacityP95 = None,
    p99: options.CapacityP99 = None,
    p999: options.CapacityP999 = None,
    arrivals: options.Arrivals = "uniform",
    keep_alive: options.KeepAlive = False,
    served: options.CaseOptions = options.CaseOptions(),
    placed: options.PlacementOptions = options.PlacementOptions(),
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Find the highest rate that keeps a latency target.

    It sends requests to fresh servers at a fixed rate, whether or not earlier ones have a response.
    The rate is doubled until the target is missed. Then five rounds narrow it down; the interval is
    that of these rounds. This takes 2 to 3 minutes with limits up to 100 ms, and longer with higher
    ones (about 10 minutes with 600 ms), because a queue must grow up to the limit. The exit code is
    5 if no rate keeps the target, if a load fails, or if the load generator is too slow for the
    server.

    Examples:
      offload capacity 3/sleep_sync p99=600ms
      offload capacity uvicorn_h11 app=shop.web:app p95=50ms arrivals=poisson
    """
    from offload.bench.analysis.latency_capacity import LatencyTarget
    from offload.bench.planning import plan

    limits = {"p50": p50, "p90": p90, "p95": p95, "p99": p99, "p999": p999}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if len(given) != 1:
        what = (
            "no latency target given" if not given else f"{' and '.join(given)} exclude each other"
        )
        raise UsageError(what, "use one, such as p99=50ms")
    [(name, limit)] = given.items()
    target = LatencyTarget(SHARES[name], limit, arrivals)
    one = placed.place(served.case(case))
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
