"""The failure of a task: one line of plain text for any exception of the task."""

from __future__ import annotations

import traceback

LONGEST = 300  # characters of a message; a guess at what is readable in a log


class TaskFailed(Exception):
    """One line that names the task and its error; always picklable: its only argument is a str."""


def from_error(name: str, error: BaseException, file: str | None = None) -> TaskFailed:
    """Return the failure for an error of a task: `shop:quote raised ValueError: text (line 12)`.

    The line is the last one that ran in `file`, the file of the task. Without it, no line is named.
    """
    kind = type(error).__name__
    try:
        text = str(error)[:LONGEST]
    except BaseException:  # noqa: BLE001 - a broken __str__ may raise anything, even SystemExit
        text = "(no message: its __str__ failed)"
    trace = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in trace if frame.f_code.co_filename == file]
    place = f" (line {lines[-1]})" if lines else ""
    return from_message(f"{name} raised {kind}{f': {text}' if text else ''}", place)


def from_message(message: str, place: str = "") -> TaskFailed:
    """Return a TaskFailed with the message and `place`, together at most LONGEST characters.

    Control characters of the message are escaped, and its end is cut.
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message[:LONGEST])
    most = LONGEST - len(place)
    return TaskFailed((line if len(line) <= most else line[: most - 3] + "...") + place)
