"""The commands report, gil, claims and watch: results, GIL costs, verdicts, a process."""

from __future__ import annotations

import sys
from dataclasses import replace

from invoke import Context

from offload.cli import arguments, case_options, command, live_page, output
from offload.cli.answers import print_answer
from offload.cli.plan_run import start_run
from offload.errors import RunError, UsageError
from offload.registry import catalog


@command("Understand")
def report(
    context: Context,
    run: str = "",
    format: str = "text",  # noqa: A002 - the option's name
    wide: bool = False,
    runs: str = "",
    open: bool = False,  # noqa: A002
) -> None:
    """Print the GIL effects and the table of a run, or write its report in HTML.

    run     its folder in results/, such as example, or a report.html; default: the newest
    format  text (default), json, rst, svg for a picture of the GIL effects, or html to write
            report.html into its folder: the answer, pictures, every figure and the records
    wide    yes: print every figure of a row, in more than 100 columns
    runs    several runs instead, as RUN+RUN; with html side by side
    open    yes: open the report.html in a browser
    """
    from offload.cli import run_reports

    arguments.one_of("format", format, *run_reports.FORMATS)
    if run and runs:
        raise UsageError("run= and runs= exclude each other", "use one of them")
    if open and format != "html":
        raise UsageError("open=yes needs format=html", "leave it out")
    if wide and format not in ("text", "rst"):
        raise UsageError(f"wide=yes is for text and rst: {format} has every figure", "leave it out")
    names = runs.split("+") if runs else [run]
    with run_reports.folders(names) as found:
        if format == "html":
            run_reports.write(found, run_reports.target(names), open)
        else:
            run_reports.show(found, format, wide)


@command("Understand")
def gil(
    context: Context,
    task: str = "",
    workers: str = "4",
    python: str = "",
    path: str = "",
    app: str = "",
    request: str = "",
    method: str = "",
    body: str = "",
    header: str = "",
    open: bool = False,  # noqa: A002
    format: str = "text",  # noqa: A002
) -> None:
    """Measure the cost of the GIL for a task, with advice: offload gil xml_feedparser_sync.

    Your own application: offload gil app=shop.web:app request=/quote/7. It runs under gunicorn: one
    process (with threads, if it is a WSGI application) is compared with several processes.

    task     a task name, package.module:function or path/to/file.py:function
    workers  number of threads, and of processes; default: 4
    python   interpreter by its name from offload pythons; default: this one
    path     a folder from which your own task or application imports
    app      your own ASGI or WSGI application instead of a task: package.module:name, its factory
             as package.module:create_app(), or the settings module of Django
    request  the path to request from it; default: /
    method   the request's method; default: GET, with body POST
    body     the request's body, or with @FILE the content of a file
    header   'Name: value' to send, several as 'A: 1; B: 2', or @FILE with one in each line
    open     yes: show the run live in a browser: see offload live
    format   text (default) or json

    The exit code is 5 if a server does not start or all its requests fail, and 7 if other processes
    disturbed the measurement.
    """
    from offload.bench.experiments import gil_cost, paired
    from offload.suites import Case

    arguments.one_of("format", format, "text", "json")
    if bool(task) == bool(app):
        what = "a task and app= exclude each other" if task else "no task given"
        raise UsageError(what, "use offload gil TASK with a task from offload list, or your own")
    work = case_options.work(app) if app else catalog.find_task(task).name
    sent = case_options.request_of(request, method, body, header)
    if sent is not None and not app:
        raise UsageError("request=, method=, body= and header= need app=", "leave them out")
    count = arguments.whole_number("workers", workers, 1, 256)
    one = Case(
        "threads",
        work,
        users=2 * count,  # saturate the workers; more users only wait longer
        settings={"workers": count},
        python=python or None,
        path=arguments.folder("path", path),
        request=sent,
    )
    threads, processes = one, replace(one, server="processes")
    if app:
        threads, processes = gil_cost.application_cases(work, count, one)
    plan = paired.comparison_plan("gil", threads, processes, is_quick=True)
    folder, records = start_run(plan, open)
    print_answer(plan, folder, records, format)


@command("Understand")
def claims(context: Context, suite: str = "", run: str = "", format: str = "text") -> None:  # noqa: A002
    """Compare the claims of published benchmarks with the newest run of each suite.

    suite   a suite; default: all, or those of the run
    run     a folder in results/ to use instead, such as example; the verdicts are written to it
    format  text (default) or json

    The terminal shows the suites that have been measured, or all before the first run. Verdicts on
    all suites are written to results/claims.rst, with the claims and their sources.
    """
    from offload.bench.claims import suite_verdicts
    from offload.bench.records import journal
    from offload.cli import run_reports, suite_claims
    from offload.reports.claims import capacity_checks, sentences
    from offload.reports.claims import verdicts as report

    arguments.one_of("format", format, "text", "json")
    suites, all_of_them = (
        suite_claims.select_suites(suite, run),
        suite_claims.select_suites("", run),
    )
    with run_reports.records_of_others(run or "the newest run"):
        found, checks, sources = suite_claims.evaluate_suites(suites, run)
    path = (journal.named(run) if run else journal.RESULTS) / "claims.rst"
    hint = f"claims and their sources: {path}"
    if suites == all_of_them:
        journal.check_writable()
        more = (
            capacity_checks.table(checks, "rst"),
            sentences.rst(suite_verdicts.published_claims(suites)),
        )
        journal.replace(path, report.rst(found, sources, *more))
    else:
        hint = f"claims and their sources: offload claims writes them to {path}"
    example = f"example-{suite or 'tornado'}"
    if not any(verdict.run for verdict in found) and (journal.RESULTS / example).exists():
        hint += f"\noffload claims run={example} evaluates the committed run"
    if format == "json":
        print(report.as_json(found), end="")
    else:
        measured = {verdict.suite for verdict in found if verdict.run}
        shown = [verdict for verdict in found if verdict.suite in measured] or found
        parts = [
            report.text(shown),
            capacity_checks.table(checks),
            "\n".join([*sources, hint]),
        ]
        print("\n\n".join(part for part in parts if part))


@command("Understand")
def watch(
    context: Context,
    pid: str = "",
    url: str = "",
    seconds: str = "",
    without_gil: bool = False,
    format: str = "text",  # noqa: A002
    open: bool = False,  # noqa: A002
) -> None:
    """Watch a running process and its children from outside, once a second: offload watch PID.

    pid          pid of a gunicorn, uvicorn, granian or any Python, whose children are watched, too;
                 default: the process that listens on the port of url, or that of offload run_server
    url          also send one request a second to it, and print its response time
    seconds      end after this time (30, 2m); default: end with Ctrl-C
    without_gil  yes: watch the other figures if no GIL can be read, as in a program without Python
    format       text (default) or json: one object a line
    open         yes: show the lines in a browser, too: see offload live

    The process is neither stopped nor changed. Each line has the CPU in cores, the memory (PSS),
    threads, voluntary and involuntary context switches per second, and rho, the share of the time
    in which the GIL is held: the largest of all processes. The exit code is 2 if the pid is not a
    running Python, 3 if its memory may not be read, and 5 if it ends while it is watched.
    """
    from offload.bench.target import running_servers
    from offload.bench.watch import response_time
    from offload.bench.watch.summary import Summary
    from offload.bench.watch.watch import Watch
    from offload.reports import watch as report

    arguments.one_of("format", format, "text", "json")
    limit = arguments.seconds("seconds", seconds, 1.0) if seconds else None
    live_page.idle_s()  # raises before anything starts
    if pid:
        number = arguments.whole_number("pid", pid, 1, 2**22)
    elif url:
        number = response_time.server_pid(url)
    else:
        number = int(str(running_servers.find()["pid"]))
    is_text, summary = format == "text", Summary()
    watching = Watch(number, url or None, without_gil)
    print(report.description(watching), file=sys.stderr)
    if is_text:
        print(report.head(bool(url)), flush=True)
    title = f"pid {number} ({watching.name})"
    rows = live_page.start_for_rows(title, report.names(bool(url)), open)
    try:
        with watching:
            for reading in watching.readings(limit):
                summary.add(reading)
                rows.send(report.cells(reading, bool(url)))
                found = report.line(reading, bool(url)) if is_text else report.json_line(reading)
                sys.stdout.write(f"{found}\n")  # one write: Ctrl-C never leaves half a line
                sys.stdout.flush()
                if output.has_no_reader(sys.stdout):
                    break
    except KeyboardInterrupt:  # the usual end
        if not summary.readings:
            raise
    if summary.readings:
        own = watching.own_cpu
        print(report.text(summary, own) if is_text else report.json_summary(summary, own))
    rows.close(report.conclusion(summary))
    if watching.has_ended:
        what = f"pid {number} ended after {summary.seconds:.0f} s"
        raise RunError(what, "start it again, and watch its new pid")
