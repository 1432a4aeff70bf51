"""The command live: show a run in a browser while it is measured."""

from __future__ import annotations

from contextlib import suppress

from offload import options
from offload.cli import live_page
from offload.cli.program import command
from offload.errors import MachineError


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
