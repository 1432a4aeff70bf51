"""Read how many requests each process of a server has answered, from memory that they share."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any


class Reader:
    """Reads the counts of a server; `layout` is its fact `process_counts`.

    A row of the memory has numbers of 8 bytes: the pid of a process (0: the row is not used), then
    its counts. Those at the indexes `responses` add up to the requests that it has answered.
    """

    def __init__(self, layout: Mapping[str, Any]) -> None:
        """Open the memory; raise OSError if the server has ended."""
        self._columns, self._responses = int(layout["columns"]), layout["responses"]
        with open(layout["path"], "rb") as file:  # noqa: PTH123 - the path is not that of a file
            self._counts = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("q")

    def responses(self) -> list[int]:
        """Return how many requests each process has answered since the start of the server.

        A process that replaces another one continues its count.
        """
        found = []
        for at in range(0, len(self._counts), self._columns):
            row = self._counts[at : at + self._columns]
            if not row[0]:
                break
            found.append(sum(row[index] for index in self._responses))
        return found


def open_reader(facts: Mapping[str, Any]) -> Reader | None:
    """Return a reader of the server that reported `facts`; None if its counts are unknown."""
    layout = facts.get("process_counts")
    try:
        return None if layout is None else Reader(layout)
    except (OSError, ValueError):
        return None
