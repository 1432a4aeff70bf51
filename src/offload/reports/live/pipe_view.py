"""The page of rows that another process sends through a pipe, such as the lines of offload watch.

Each line is a JSON object: `{"head": [...]}` first, `{"row": [...]}` for each row, and
`{"lines": [...]}` at the end, which are shown below the table.
"""

from __future__ import annotations

import json
from collections import deque

from offload.reports.live.tail import PipeTail
from offload.reports.live.view import ENDED, RUNNING, View

MOST = 120  # rows; older ones are dropped


class PipeView:
    """Rows from a pipe, the newest first."""

    def __init__(self, title: str, descriptor: int) -> None:
        self.title = title
        self._tail = PipeTail(descriptor)
        self._head: tuple[str, ...] = ()
        self._rows: deque[tuple[str, ...]] = deque(maxlen=MOST)
        self._lines: tuple[str, ...] = ()

    def read(self) -> View:
        """Read the rows that came since the last call."""
        for line in self._tail.read():
            values = json.loads(line)
            self._head = tuple(values.get("head", self._head))
            self._lines = tuple(values.get("lines", self._lines))
            if "row" in values:
                self._rows.appendleft(tuple(values["row"]))
        step = "Watching ended." if self._tail.is_closed else "One row per second, newest first."
        return View(
            ENDED if self._tail.is_closed else RUNNING,
            step,
            self._head,
            tuple(self._rows),
            numbers=tuple(range(len(self._head) - 1)),
            lines=self._lines,
        )

    def report(self) -> bytes | None:
        """Return None: watching has no report."""
        return None
