"""Send the content of the page to all browsers: it is computed once a second for all of them."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from offload.reports.live.view import BROKEN, RUNNING, Source, View

EVERY = 1.0  # s between two readings


class Stream(Protocol):
    """The connection of a browser."""

    def send(self, event: bytes) -> bool:
        """Send an event; return False if the browser has not yet taken the last one."""


class Feed:
    """Reads a source each second, and sends what has changed to every stream.

    A browser that is slow gets the newest content when it can take it, and nothing in between.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.view = self._read(None)
        self._event = _event(self.view)
        self._behind: dict[Stream, bool] = {}  # all streams, and whether they lack the event

    def add(self, stream: Stream) -> None:
        """Add a stream, and send it the content now."""
        clock = f"retry: 1000\nevent: clock\ndata: {time.time():.3f}\n\n".encode()
        self._behind[stream] = False
        stream.send(clock + self._event)

    def remove(self, stream: Stream) -> None:
        """Remove a stream whose browser has gone."""
        self._behind.pop(stream, None)

    async def run(self, idle_s: float) -> None:
        """Read and send until the source has ended and no browser was connected for `idle_s`."""
        without_s = 0.0  # counted in steps, so that a stopped process has not waited
        while without_s < idle_s:
            await asyncio.sleep(EVERY)
            view = self._read(self.view)
            if view != self.view:
                self.view, self._event = view, _event(view)
                self._behind = dict.fromkeys(self._behind, True)
            self.send()
            is_needed = bool(self._behind) or self.view.state == RUNNING
            without_s = 0.0 if is_needed else without_s + EVERY

    def send(self) -> None:
        """Send the content to each stream that lacks it."""
        for stream in [stream for stream, is_behind in self._behind.items() if is_behind]:
            is_sent = stream.send(self._event)
            if stream in self._behind:  # sending may show that its browser has gone
                self._behind[stream] = not is_sent

    def _read(self, last: View | None) -> View:
        try:
            return self.source.read()
        except (OSError, ValueError, LookupError, ArithmeticError, TypeError) as error:
            what = f"{self.source.title} cannot be read: {type(error).__name__}: {error}"
            rows = ((), ()) if last is None else (last.head, last.rows)
            return View(BROKEN, what, *rows)


def _event(view: View) -> bytes:
    return b"data: " + view.encode() + b"\n\n"
