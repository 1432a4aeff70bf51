"""The command report: results of runs, as text, JSON, a picture or a page."""

from __future__ import annotations

from offload import options
from offload.cli import runner
from offload.cli.program import command
from offload.errors import UsageError, records_of_others


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
