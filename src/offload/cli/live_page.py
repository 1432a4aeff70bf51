"""Start the live page of a command, print its address, and open it in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from offload.errors import UserError
from offload.options import arguments
from offload.studies import Rows

VARIABLE, DEFAULT_MINUTES = "LIVE_MINUTES", "3"
LONGEST_MINUTES = 24 * 60.0
BROWSER_S = 2.0  # s until a browser that was found has started or failed; a guess
OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
GRAPHICAL = (
    "BROWSER",
    "DISPLAY",
    "WAYLAND_DISPLAY",
)  # without one, a browser would use the terminal


def idle_s() -> float:
    """Return how long a page is served without a browser, in s; raise UsageError."""
    text = os.environ.get(VARIABLE) or DEFAULT_MINUTES
    return 60 * arguments.number(VARIABLE, text, 0.01, LONGEST_MINUTES)


def start_for_run(folder: Path) -> None:
    """Serve the page of a run that starts now, and open it; a failure is a warning in one line."""
    from offload.documents import live
    from offload.engine.progress import announce_run

    seconds = idle_s()
    announce_run(folder)
    try:
        page = live.of_run(folder, seconds)
    except (UserError, OSError) as error:
        print(f"warning: {error}", file=sys.stderr)
        return
    show(page.url)


class NoRows:
    """Shows nothing: there is no page."""

    def send(self, row: Sequence[str]) -> None:
        pass

    def close(self, lines: Sequence[str] = ()) -> None:
        pass


def start_for_rows(title: str, head: Sequence[str], is_opened: bool) -> Rows:
    """Serve the page of rows, and open it; a failure is a warning in one line."""
    from offload.documents.live import RowsPipe

    if not is_opened:
        return NoRows()
    try:
        rows = RowsPipe(title, head, idle_s())
    except (UserError, OSError) as error:
        print(f"warning: {error}", file=sys.stderr)
        return NoRows()
    show(rows.url)
    return rows


def show(url: str) -> None:
    """Print the address of a page, and open it in a browser if this session has one."""
    print(f"live page: {url}", file=sys.stderr, flush=True)
    if not open_in_browser(url):
        print("warning: no browser was found: open the address in one", file=sys.stderr)


def open_in_browser(url: str) -> bool:
    """Open an address in a browser; return whether one was found that needs no terminal.

    `webbrowser` waits for the end of some browsers, such as BROWSER='chromium %s', and a browser
    inherits its streams: it would keep a pipe of this command open. So a process of its own, in
    another session, opens it.
    """
    if sys.platform != "darwin" and not any(map(os.environ.get, GRAPHICAL)):
        return False
    try:
        opening = subprocess.Popen(
            [sys.executable, "-c", OPEN, url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    waiting = threading.Thread(target=opening.wait, daemon=True)  # reaps it whenever it ends
    waiting.start()
    waiting.join(BROWSER_S)
    return waiting.is_alive() or opening.returncode == 0
