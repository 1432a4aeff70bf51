"""The commands report and watch: results of runs, and a process."""

from __future__ import annotations

import sys

from offload import options
from offload.cli import live_page, program, runner
from offload.cli.program import command
from offload.errors import RunError, UsageError, records_of_others


@command("Understand")
def report(
    run: options.ReportRun = "",
    *,
    runs: options.ReportRuns = "",
    format: options.ReportFormat = "text",
    wide: options.ReportWide = False,
    open: options.ReportOpen = False,
) -> None:
    """Print the GIL effects and the table of a run, or write its report in HTML.

    Examples:
      offload report example
      offload report format=html open=yes
    """
    if run and runs:
        raise UsageError("run= and runs= exclude each other", "use one of them")
    if open and format != "html":
        raise UsageError("open=yes needs format=html", "leave it out")
    if wide and format != "text":
        raise UsageError(f"wide=yes is for text: {format} has every figure", "leave it out")
    names = runs.split("+") if runs else [run]
    found = runner.find(names)
    with records_of_others("+".join(folder.name for folder in found)):
        if format == "html":
            runner.open_report(found, open)
        else:
            runner.show(found, format, wide)


@command("Understand")
def watch(
    pid: options.WatchPid = None,
    *,
    url: options.WatchUrl = "",
    time: options.WatchSeconds = None,
    without_gil: options.WatchWithoutGil = False,
    open: options.Open = False,
    format: options.WatchFormat = "text",
) -> None:
    """Watch a running process and its children from outside, once a second.

    The process is neither stopped nor changed. Each line has the CPU in cores, the memory (PSS),
    threads, voluntary and involuntary context switches per second, and rho, the share of the time
    in which the GIL is held: the largest of all processes. The end names the lines that held the
    GIL, blocked the event loop or waited in the first two seconds. The exit code is 2 if the pid is
    not a running Python, 3 if its memory may not be read, and 5 if it ends while it is watched.

    Examples:
      offload watch 1234
      offload watch url=http://127.0.0.1:8000/ seconds=30
    """
    from offload.bench.watch import response_time
    from offload.bench.watch.summary import Summary
    from offload.bench.watch.watch import Watch
    from offload.documents import who
    from offload.engine import running_servers
    from offload.engine.who import BackgroundSample
    from offload.reports import watch as report

    live_page.idle_s()  # raises before anything starts
    if pid is not None:
        number = pid
    elif url:
        number = response_time.server_pid(url)
    else:
        number = int(str(running_servers.find_server()["pid"]))
    is_text, summary, sampled = format == "text", Summary(), BackgroundSample(number)
    watching = Watch(number, url or None, without_gil)
    print(report.description(watching), file=sys.stderr)
    if is_text:
        print(report.head(bool(url)), flush=True)
    title = f"pid {number} ({watching.name})"
    rows = live_page.start_for_rows(title, report.names(bool(url)), open)
    try:
        with watching:
            sampled.start()
            for reading in watching.readings(time):
                summary.add(reading)
                rows.send(report.cells(reading, bool(url)))
                found = report.line(reading, bool(url)) if is_text else report.json_line(reading)
                sys.stdout.write(f"{found}\n")  # one write: Ctrl-C never leaves half a line
                sys.stdout.flush()
                if program.has_no_reader(sys.stdout):
                    break
    except KeyboardInterrupt:  # the usual end
        if not summary.readings:
            raise
    if summary.readings:
        own, hot = watching.own_cpu, sampled.result()
        end = report.text if is_text else report.json_summary
        print(end(summary, own, hot))
    rows.close((*report.conclusion(summary), *who.sentences(sampled.result())))
    if watching.has_ended:
        what = f"pid {number} ended after {summary.seconds:.0f} s"
        raise RunError(what, "start it again, and watch its new pid")
