"""The application: the pages of www/, and /flaky, /wait, /limited and /status."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import tornado.web

WWW = Path(__file__).resolve().parent / "www"
TYPES = {"page.html": "text/html", "feed.xml": "text/xml"}  # as nginx sends them
SEED = 20  # of /flaky's failures: the same sequence after every start
FAILURE_RATE = 0.5
LONGEST_WAIT = 60.0  # s
LIMITED_RATE = 100.0  # responses/s of /limited
LIMITED_BURST = 10  # responses that /limited sends at once after a pause


class Flaky:
    """The tries and failures of /flaky: half of the tries fail, in the same sequence each time."""

    def __init__(self) -> None:
        self._random = random.Random(SEED)  # noqa: S311 - repeatable on purpose
        self.tries = 0
        self.failures = 0

    def fails(self) -> bool:
        """Count one more try and return whether it fails."""
        self.tries += 1
        failing = self._random.random() < FAILURE_RATE
        self.failures += failing
        return failing


class Limit:
    """The token bucket of /limited: a response waits until there is a token for it."""

    def __init__(self) -> None:
        self._full_at = 0.0  # when the bucket is full again, in seconds of time.monotonic()

    def take(self, now: float) -> float:
        """Take the next token and return the seconds until it is available."""
        self._full_at = max(self._full_at, now) + 1 / LIMITED_RATE
        return max(0.0, self._full_at - now - LIMITED_BURST / LIMITED_RATE)


def application(latency_s: float, status: dict[str, Any]) -> tornado.web.Application:
    """Create the application: every response except /status is delayed by `latency_s`.

    /status has the values of `status`, which may change.
    """
    flaky = Flaky()
    waiting = {"flaky": flaky, "latency_s": latency_s}
    pages = {
        name: {**waiting, "content": (WWW / name).read_bytes(), "kind": kind}
        for name, kind in TYPES.items()
    }
    return tornado.web.Application(
        [
            *((f"/{name}", _Page, page) for name, page in pages.items()),
            ("/flaky", _Flaky, pages["page.html"]),
            ("/wait", _Wait, {**waiting, "pages": pages}),
            ("/limited", _Limited, {**waiting, "pages": pages, "limit": Limit()}),
            ("/status", _Status, {"flaky": flaky, "status": status}),
        ],
        log_function=lambda handler: None,
    )


class _Response(tornado.web.RequestHandler):
    def initialize(self, **parameters: Any) -> None:
        self.parameters = parameters

    def compute_etag(self) -> None:
        """Compute no ETag: nginx does not hash every page either."""


class _Page(_Response):
    async def get(self) -> None:
        await asyncio.sleep(self.parameters["latency_s"])
        self.set_header("Content-Type", self.parameters["kind"])
        self.write(self.parameters["content"])


class _Flaky(_Page):
    async def get(self) -> None:
        if not self.parameters["flaky"].fails():
            await super().get()
            return
        await asyncio.sleep(self.parameters["latency_s"])
        self.set_status(500)
        self.write(b"this try fails\n")


class _Wait(_Response):
    async def get(self) -> None:
        """Respond after `seconds`, as a slow service would, with a `page` if one is named."""
        try:
            seconds = float(self.get_query_argument("seconds", "0"))
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= LONGEST_WAIT:
            self.set_status(400)
            self.write(f"use /wait?seconds= from 0 to {LONGEST_WAIT:g}\n")
            return
        await self.respond_after(seconds)

    async def respond_after(self, seconds: float) -> None:
        """Wait, then send the page that the request names, if any."""
        page = self.parameters["pages"].get(self.get_query_argument("page", ""))
        await asyncio.sleep(self.parameters["latency_s"] + seconds)
        if page is not None:
            self.set_header("Content-Type", page["kind"])
        self.write(b"waited\n" if page is None else page["content"])


class _Limited(_Wait):
    async def get(self) -> None:
        """Respond when there is a token, as a service does that limits the rate of its clients."""
        await self.respond_after(self.parameters["limit"].take(time.monotonic()))


class _Status(_Response):
    async def get(self) -> None:
        flaky = self.parameters["flaky"]
        counts = {"flaky_tries": flaky.tries, "flaky_failures": flaky.failures}
        self.write(self.parameters["status"] | counts)
