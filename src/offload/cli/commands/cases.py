"""The commands measure, compare and scale: one case, two cases, a case in several sizes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from offload import options
from offload.cli.answers import print_answer
from offload.cli.plan_run import show, start_run, with_load
from offload.cli.program import command
from offload.errors import UsageError
from offload.options import arguments
from offload.registry import catalog, setting_limits

if TYPE_CHECKING:
    from offload.suites import Case

MOST_SIZES = 36  # of a grid: each takes about half a minute


@command("Measure")
def measure(
    case: options.CaseText = "",
    *,
    users: options.Users = 25,
    keep_alive: options.KeepAlive = False,
    target: options.Target = None,
    quick: options.Quick = False,
    served: options.CaseOptions = options.CaseOptions(),
    placed: options.PlacementOptions = options.PlacementOptions(),
    pin: options.Pin = "",
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Measure one case until its rate is known to +-2 %.

    The measurement also ends after the last round, or after 60 s of load (180 s below
    2 requests/s). The interval is then wider. The exit code is 5 if a server does not start or all
    its requests fail.

    Examples:
      offload measure 3/sleep_sync
      offload measure granian_asgi app=shop.web:app request=/quote/7
    """
    from offload.bench.planning import blocks, plan

    one = placed.place(served.case(case), pin)
    cases = with_load([one], users, keep_alive)
    one_block = (blocks.Block((0,)),)
    seed = plan.new_seed()
    planned = plan.Plan(
        "measure", cases, seed, driver=None, quick=quick, target=target, blocks=one_block
    )
    _, records = start_run(planned, open)
    show(records, format)


@command("Measure")
def compare(
    one: options.CompareOne = "",
    other: options.CompareOther = "",
    *,
    users: options.Users = 25,
    keep_alive: options.KeepAlive = False,
    quick: options.CompareQuick = False,
    served: options.CaseOptions = options.CaseOptions(),
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Compare the rates of two cases.

    The exit code is 5 if a server does not start or all its requests fail, and 7 if other processes
    disturbed the measurement. If some requests fail, a line reports their number; rates count only
    completed requests.

    Examples:
      offload compare 3/sleep_sync 4/sleep_sync
      offload compare uvicorn_h11 granian_asgi app=shop.web:app
    """
    from offload.bench.experiments import paired

    first, second = served.case(one, "first case"), served.case(other, "second case")
    pair = with_load([first, second], users, keep_alive)
    plan = paired.comparison_plan("compare", pair[0], pair[1], quick)
    folder, records = start_run(plan, open)
    print_answer(plan, folder, records, format)


@command("Measure")
def scale(
    case: options.CaseText = "",
    *,
    workers: options.ScaleWorkers = "",
    processes: options.ScaleProcesses = "",
    users: options.ScaleUsers = "",
    keep_alive: options.KeepAlive = False,
    served: options.CaseOptions = options.CaseOptions(),
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Find where more workers stop helping.

    The exit code is 5 if no number has a rate, and 7 if other processes disturbed the measurement.

    Examples:
      offload scale 3/xml_lxml_sync workers=1..16
      offload scale 3x8/sleep_sync users=1+8+64
    """
    from offload.bench.experiments import sweep
    from offload.bench.planning import blocks, plan
    from offload.bench.stats.models import scaling

    if not workers and not users and not processes:
        raise UsageError("nothing to vary", "use workers=1..16, processes=1..4 or users=1..64")
    base = served.case(case)
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
