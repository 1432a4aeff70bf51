"""The command resume: continue a run of any study."""

from __future__ import annotations

from offload import options
from offload.cli import live_page
from offload.cli.program import command
from offload.cli.runner import TerminalRunner, check, continue_run
from offload.errors import UsageError, records_of_others
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
