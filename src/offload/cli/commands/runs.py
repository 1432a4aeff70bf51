"""The commands resume, report and live: continue a run, report it, and show it as it goes on."""

from __future__ import annotations

from contextlib import suppress

from offload import options
from offload.cli import live_page, runner
from offload.cli.program import command
from offload.cli.runner import TerminalRunner, check, continue_run
from offload.errors import MachineError, UsageError, records_of_others
from offload.options import arguments
from offload.studies import Run, find_study, formats


@command("Measure")
def resume(
    run: options.ResumeRun = "",
    *,
    hosts: options.HostOptions = options.HostOptions(),
    open: options.Open = False,
    format: options.ResumeFormat = "text",
) -> None:
    """Continue an interrupted run; finished rounds are not repeated.

    Example: offload resume
    """
    from offload.engine import journal

    arguments.one_of("format", format, *formats())
    folder = journal.find_run(run) if run else journal.newest_unfinished()
    unfinished = journal.load_plan(folder)
    study = find_study(unfinished.suite)
    arguments.one_of("format", format, *study.formats)
    if unfinished.is_masked:
        what = f"{folder.name} sends a header, a body or a parameter whose value is not in its file"
        raise UsageError(what, "start a new run by its command")
    with study.reserve():
        if journal.is_due(unfinished, folder):
            if any(case.placement.hosts for case in unfinished.cases):
                hosts.connect()
            check(unfinished)
            study.check_plan(unfinished)
            if open:
                live_page.start_for_run(folder)
        records = continue_run(unfinished, folder)
        with records_of_others(folder.name):
            TerminalRunner().answer(study, Run(folder, unfinished, records), format)


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
def live(
    run: options.LiveRun = "",
    *,
    open: options.LiveOpen = False,
) -> None:
    """Show a run in a browser while it is measured, and its report at the end.

    It prints the address of a page on 127.0.0.1, which contains a random word, and serves it until
    Ctrl-C, or until the run has ended and no browser was connected for 3 minutes (LIVE_MINUTES).
    With open=yes, quick, run_suite, measure, compare and others serve this page in the background.

    Example: offload live open=yes
    """
    import asyncio

    from offload.documents.live import server
    from offload.documents.live.view import RunView
    from offload.engine import journal
    from offload.engine.progress import newest_running

    seconds = live_page.idle_s()
    folder = journal.find_run(run) if run else newest_running() or journal.newest()

    def show(url: str) -> None:
        if open:
            live_page.show(url)
        else:
            print(url, flush=True)

    with suppress(KeyboardInterrupt):  # the usual end
        try:
            asyncio.run(server.serve(RunView(folder), seconds, show))
        except OSError as error:
            what = f"no port of 127.0.0.1 can be used: {error.strerror}"
            raise MachineError(what, "check the network of this machine") from error
