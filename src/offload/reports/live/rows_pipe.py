"""Send rows to the server of the page through a pipe, without ever waiting for it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress

from offload.reports.live import launch


class RowsPipe:
    """A page of rows, and the pipe to its server; raise StartError if it does not start.

    A row that the pipe has no room for is left out.
    """

    def __init__(self, title: str, head: Sequence[str], idle_s: float) -> None:
        reading, self._pipe = os.pipe()
        try:
            self.page = launch.of_rows(title, idle_s, reading)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(reading)
        os.set_blocking(self._pipe, False)
        self._rest = b""
        self._send({"head": [*head]})

    @property
    def url(self) -> str:
        """The address of the page."""
        return self.page.url

    def send(self, row: Sequence[str]) -> None:
        """Send a row."""
        self._send({"row": [*row]})

    def close(self, lines: Sequence[str] = ()) -> None:
        """Send lines that are shown below the rows, and end; the page remains."""
        self._send({"lines": [*lines]})
        os.close(self._pipe)

    def _send(self, values: dict[str, list[str]]) -> None:
        with suppress(OSError):  # it is full, or the server has ended
            self._rest = self._rest[os.write(self._pipe, self._rest) :] if self._rest else b""
            if not self._rest:
                self._rest = json.dumps(values).encode() + b"\n"
                self._rest = self._rest[os.write(self._pipe, self._rest) :]
