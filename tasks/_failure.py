"""The failure of a task: one line of plain text, whatever it was that the task raised."""

from __future__ import annotations

LONGEST = 300  # characters of a message; a guess at what still reads well in a log


class TaskFailed(Exception):
    """Say in one line which task failed and how; made of one str, so it always crosses a pickle."""


def raised(name: str, error: BaseException) -> TaskFailed:
    """Word what the task `name` raised as `name raised ValueError: text`."""
    kind = type(error).__name__
    try:
        text = str(error)[:LONGEST]
    except BaseException:  # noqa: BLE001 - a broken __str__ may raise anything, even SystemExit
        text = "(its text could not be made)"
    return failed(f"{name} raised {kind}: {text}" if text else f"{name} raised {kind}")


def failed(message: str) -> TaskFailed:
    """Make a TaskFailed of a message: control bytes escaped, at most LONGEST characters."""
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message[:LONGEST])
    return TaskFailed(line if len(line) <= LONGEST else line[: LONGEST - 3] + "...")
