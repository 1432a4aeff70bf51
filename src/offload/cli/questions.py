"""Measure: one case, the difference between two cases, or the scaling of a case."""

from __future__ import annotations

import sys

from invoke import Context

from offload.cli import arguments, command
from offload.cli.answers import print_answer
from offload.cli.plan_run import show, start_run, with_load
from offload.errors import UsageError


@command("Measure")
def measure(
    context: Context,
    case: str = "",
    users: str = "25",
    keep_alive: bool = False,
    target: str = "",
    quick: bool = False,
    format: str = "text",  # noqa: A002
) -> None:
    """Measure one case until its rate is known to +-2 %: fab measure:3/sleep_sync.

    case        server/task; x16 after the server sets its workers, @3.14 its Python
    users       concurrent users; each sends its next request as soon as it has its answer;
                default: 25
    keep_alive  yes: keep connections open; default: a new connection for each request
    target      half-width of the interval in percent; default: 2, with quick 5
    quick       at most 7 rounds instead of 40
    format      text (default) or json

    The exit code is 5 if a server does not start or a task fails.
    """
    from offload.bench.records import blocks, plan
    from offload.suites import _case_syntax

    arguments.one_of("format", format, "text", "json")
    share = arguments.number("target", target, 0.1, 50.0) / 100 if target else None
    cases = with_load(
        [_case_syntax.case(case)], arguments.whole_number("users", users, 1, 20_000), keep_alive
    )
    one_block = (blocks.Block((0,)),)
    seed = plan.new_seed()
    _, records = start_run(plan.Plan("measure", cases, seed, None, quick, share, blocks=one_block))
    show(records, format)


@command("Measure")
def compare(
    context: Context,
    one: str = "",
    other: str = "",
    users: str = "25",
    keep_alive: bool = False,
    quick: bool = False,
    format: str = "text",  # noqa: A002
) -> None:
    """Compare the rates of two cases: fab compare:3/sleep_sync,4/sleep_sync.

    one         server/task; x16 after the server sets its workers, @3.14 its Python
    other       the case to compare with it
    users       concurrent users; each sends its next request as soon as it has its answer;
                default: 25
    keep_alive  yes: keep connections open; default: a new connection for each request
    quick       at most 7 rounds instead of 40; differences below 5 % instead of 2 % do not matter
    format      text (default) or json

    The exit code is 5 if a server does not start or a task fails, and 7 if other processes
    disturbed the measurement.
    """
    from offload.bench.experiments import paired
    from offload.suites import _case_syntax

    arguments.one_of("format", format, "text", "json")
    first, second = (
        _case_syntax.case(one, "which first case"),
        _case_syntax.case(other, "which second case"),
    )
    user_count = arguments.whole_number("users", users, 1, 20_000)
    pair = with_load([first, second], user_count, keep_alive)
    plan = paired.comparison_plan("compare", pair[0], pair[1], quick)
    folder, records = start_run(plan)
    print_answer(plan, folder, records, format)


@command("Measure")
def scale(
    context: Context,
    case: str = "",
    workers: str = "",
    users: str = "",
    keep_alive: bool = False,
    format: str = "text",  # noqa: A002
) -> None:
    """Find where more workers stop helping: fab scale:3/xml_lxml_sync,workers=1..16.

    case        server/task; @3.14 after the server sets its Python
    workers     numbers of workers to measure: a range 1..16, or a list 1+2+4+8
    users       numbers of users instead of workers; with workers a single number, default: 25
    keep_alive  yes: keep connections open; default: a new connection for each request
    format      text (default) or json
    """
    from offload.bench.experiments import sweep
    from offload.bench.records import blocks, plan
    from offload.bench.stats import scaling
    from offload.suites import _case_syntax

    arguments.one_of("format", format, "text", "json")
    if not workers and not users:
        raise UsageError("nothing to vary", "use workers=1..16 or users=1..64")
    over = sweep.WORKERS if workers else sweep.USERS
    numbers = arguments.whole_numbers(over, workers or users, 1, 256 if workers else 20_000)
    if len(numbers) == 1:
        raise UsageError(f"{over}={numbers[0]} varies nothing", f"use a range: {over}=1..16")
    user_count = arguments.whole_number("users", users or "25", 1, 20_000) if workers else 1
    [one] = with_load([_case_syntax.case(case)], user_count, keep_alive)
    cases = sweep.cases(one, over, numbers)
    if few := scaling.too_few(numbers):
        print(f"rates only, no model: {few}", file=sys.stderr)
    seed = plan.new_seed()
    planned = plan.Plan("scale", cases, seed, None, True, blocks=blocks.form(cases))
    folder, records = start_run(planned)
    print_answer(planned, folder, records, format)
