"""Measure: one server by hand, one case, or a whole benchmark."""

from __future__ import annotations

from dataclasses import replace

from invoke import Context

import catalog
import values
from commands import command
from commands._run import begin, go_on, show, suite_plan, with_load
from errors import RunError, UsageError


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
    import loads
    from bench import journal, load_test, running
    from reports import as_json, publish, text

    values.one_of("format", format, "text", "json")
    values.one_of("arrivals", arrivals, "uniform", "poisson")
    for one, other in ((("url", url), ("port", port)), (("requests", requests), ("time", time))):
        if one[1] and other[1]:
            raise UsageError(f"{one[0]}= and {other[0]}= exclude each other: give one of them")
    wanted = values.whole("port", port, 1, 65535) if port else None
    load = loads.Load(
        url,
        users=values.whole("users", users, 1, 20_000),
        seconds=None if requests else values.seconds("time", time or "30", 0.1),
        requests=values.whole("requests", requests, 1, 10**9) if requests else None,
        keep_alive=keep_alive,
        rate=values.number("rate", rate, 0.001, 1e6) if rate else None,
        arrivals=arrivals,
        think=values.seconds("think", think, 0.0),
        processes=values.whole("processes", processes, 1, 64),
    )
    alone = load.rate is not None or load.think or load.processes > 1
    tool = catalog.find_driver(driver or ("builtin" if alone else loads.default_driver())).name
    facts = {} if url else running.find(wanted)
    load = replace(load, url=url or f"http://127.0.0.1:{facts['port']}/")
    loads.check(load, tool)
    folder = journal.lasting_run()
    record = load_test.of_url(load, tool) if url else load_test.of_server(facts, load, tool)
    journal.append(folder, record)
    kept = publish.publish(folder, journal.read(folder))
    if format == "json":
        print(as_json.as_json([record]), end="")
    else:
        print(f"{text.shortened(record.output)}\n\n{text.row(record)}\nrecorded in {kept}")
    if record.problem is not None or not record.completed:
        raise RunError(record.problem or f"no request was completed: see what {load.url} answers")


@command("Measure")
def run_all_load_tests(
    context: Context,
    quick: bool = False,
    driver: str = "",
    rows: str = "",
    target: str = "",
    format: str = "text",  # noqa: A002
) -> None:
    """Measure every row of the main benchmark and write results/results.txt.

    quick   only the 14 published rows, at most 7 visits and one run of 8 s each
    driver  of the long runs; the published tool when it is installed, else builtin
    rows    published, later, crowd, gil or all; all unless given, published with quick
    target  half-width of the intervals in percent: 2, or 5 with quick
    format  text unless given, or json
    """
    _suite("tornado", quick, driver, rows or ("published" if quick else "all"), target, format)


@command("Measure")
def run_suite(
    context: Context,
    suite: str = "",
    quick: bool = False,
    driver: str = "",
    rows: str = "",
    target: str = "",
    pythons: str = "",
    format: str = "text",  # noqa: A002
) -> None:
    """Measure every row of a suite: fab run_suite:tornado.

    suite   its name, as fab list gives it, or all of them, one after the other
    quick   at most 7 visits and one run of 8 s each
    driver  of the long runs; the published tool when it is installed, else builtin
    rows    a group of its rows; all unless given, with quick those that its claims are about
    target  half-width of the intervals in percent: 2, or 5 with quick
    pythons every row in each of these, as fab pythons names them: 3.11+3.14+3.14t
    format  text unless given, or json
    """
    without: list[str] = []
    for name in [*catalog.suites()] if suite == "all" else [suite]:
        try:
            _suite(name, quick, driver, rows, target, format, pythons)
        except RunError as error:
            without.append(f"{name}: {error}")
    if without:
        raise RunError("; ".join(without))


@command("Measure")
def resume(context: Context, run: str = "", format: str = "text") -> None:  # noqa: A002
    """Go on with an interrupted run, the newest unless named; no finished visit is repeated.

    run     its folder in results/
    format  text unless given, or json
    """
    from bench import journal, plan

    values.one_of("format", format, "text", "json")
    folder = journal.named(run) if run else journal.newest_planned()
    show(go_on(plan.load(folder), folder), format)


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
    users       that ask at once, each again as soon as it has its answer; 25 unless given
    keep_alive  yes keeps connections; a new one for each request unless given
    target      half-width of the interval in percent: 2, or 5 with quick
    quick       at most 7 visits instead of 20
    format      text unless given, or json
    """
    from bench import plan
    from suites import _word

    values.one_of("format", format, "text", "json")
    share = values.number("target", target, 0.1, 50.0) / 100 if target else None
    cases = with_load([_word.case(case)], values.whole("users", users, 1, 20_000), keep_alive)
    _, records = begin(plan.Plan("measure", cases, plan.new_seed(), None, quick, share))
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
    """Say which of two cases is faster: fab compare:3/sleep_sync,4/sleep_sync.

    one         server/task; x16 after the server sets its workers, @3.14 its Python
    other       the case that is compared with it
    users       that ask at once, each again as soon as it has its answer; 25 unless given
    keep_alive  yes keeps connections; a new one for each request unless given
    quick       differences below 5 % do not matter, instead of 2 %
    format      text unless given, or json
    """
    from bench import comparison
    from reports import compared
    from suites import _word

    values.one_of("format", format, "text", "json")
    asked = values.whole("users", users, 1, 20_000)
    pair = with_load([_word.case(one), _word.case(other)], asked, keep_alive)
    found = comparison.compare(pair[0], pair[1], quick)
    print(compared.as_json(found) if format == "json" else compared.text(found))


@command("Measure")
def scale(
    context: Context,
    case: str = "",
    workers: str = "",
    users: str = "",
    keep_alive: bool = False,
    format: str = "text",  # noqa: A002
) -> None:
    """Measure how a case scales and where it stops to: fab scale:3/xml_lxml_sync,workers=1..16.

    case        server/task; @3.14 after the server sets its Python
    workers     from..to, or a list 1+2+4+8; this or users must be given
    users       the same, instead of workers; or with workers one number, 25 unless given
    keep_alive  yes keeps connections; a new one for each request unless given
    format      text unless given, or json
    """
    from bench import plan, sweep
    from reports import scaled
    from suites import _word

    values.one_of("format", format, "text", "json")
    if not workers and not users:
        raise UsageError("over what? workers=1..16, or users=1..64")
    over = sweep.WORKERS if workers else sweep.USERS
    numbers = values.wholes(over, workers or users, 1, 256 if workers else 20_000)
    asked = values.whole("users", users or "25", 1, 20_000) if workers else 1
    [one] = with_load([_word.case(case)], asked, keep_alive)
    cases = sweep.cases(one, over, numbers)
    _, records = begin(plan.Plan("scale", cases, plan.new_seed(), None, quick=True))
    found = sweep.fit(records, over)
    print(scaled.as_json(found) if format == "json" else scaled.text(found))


def _suite(
    suite: str,
    quick: bool,
    driver: str,
    rows: str,
    target: str,
    style: str,
    pythons: str = "",
) -> None:
    from bench import pythons as interpreters

    values.one_of("format", style, "text", "json")
    share = values.number("target", target, 0.1, 50.0) / 100 if target else None
    plan = suite_plan(suite, rows, driver, quick, share)
    if pythons:
        names = pythons.split("+")
        for name in names:
            interpreters.find(name)  # raises for one that is not there
        own = {case.key: case for case in (replace(c, python=None) for c in plan.cases)}
        cases = (replace(case, python=name) for case in own.values() for name in names)
        plan = replace(plan, cases=tuple(cases))
    _, records = begin(plan)
    show(records, style)
