"""The failure of a task: one line of plain text for any exception of the task."""

from __future__ import annotations

LONGEST = 300  # characters of a message; a guess at what is readable in a log


class TaskFailed(Exception):
    """One line that names the task and its error; always picklable: its only argument is a str."""


def from_error(name: str, error: BaseException) -> TaskFailed:
    """Return the failure for an error of the task `name`: `name raised ValueError: text`."""
    kind = type(error).__name__
    try:
        text = str(error)[:LONGEST]
    except BaseException:  # noqa: BLE001 - a broken __str__ may raise anything, even SystemExit
        text = "(no message: its __str__ failed)"
    return from_message(f"{name} raised {kind}: {text}" if text else f"{name} raised {kind}")


def from_message(message: str) -> TaskFailed:
    """Return a TaskFailed with the message, control characters escaped, at most LONGEST long."""
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message[:LONGEST])
    return TaskFailed(line if len(line) <= LONGEST else line[: LONGEST - 3] + "...")
