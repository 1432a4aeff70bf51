"""The application: the pages of www/, and /flaky, /wait and /status, which nginx too asks of it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import tornado.web

WWW = Path(__file__).resolve().parent / "www"
TYPES = {"page.html": "text/html", "feed.xml": "text/xml"}  # as nginx sends them
SEED = 20  # of the failures of /flaky: the same sequence after every start
FAILING = 0.5
LONGEST_WAIT = 60.0  # s


class Flaky:
    """The sequence of /flaky: half of the tries fail, always the same ones, and all are counted."""

    def __init__(self) -> None:
        self._chance = random.Random(SEED)  # noqa: S311 - to repeat is the point
        self.tries = 0
        self.failures = 0

    def fails(self) -> bool:
        """Decide about one more try."""
        self.tries += 1
        failing = self._chance.random() < FAILING
        self.failures += failing
        return failing


def application(latency_s: float) -> tornado.web.Application:
    """Make the application: every answer but /status waits `latency_s`."""
    flaky = Flaky()
    waiting = {"flaky": flaky, "latency_s": latency_s}
    pages = {name: {**waiting, "content": (WWW / name).read_bytes()} for name in TYPES}
    return tornado.web.Application(
        [
            *((f"/{name}", _Page, {**page, "kind": TYPES[name]}) for name, page in pages.items()),
            ("/flaky", _Flaky, {**pages["page.html"], "kind": TYPES["page.html"]}),
            ("/wait", _Wait, waiting),
            ("/status", _Status, waiting),
        ],
        log_function=lambda handler: None,
    )


class _Answer(tornado.web.RequestHandler):
    def initialize(self, **given: Any) -> None:
        self.given = given

    def compute_etag(self) -> None:
        """Make none: to hash every page would be work that nginx does not do."""


class _Page(_Answer):
    async def get(self) -> None:
        await asyncio.sleep(self.given["latency_s"])
        self.set_header("Content-Type", self.given["kind"])
        self.write(self.given["content"])


class _Flaky(_Page):
    async def get(self) -> None:
        if not self.given["flaky"].fails():
            await super().get()
            return
        await asyncio.sleep(self.given["latency_s"])
        self.set_status(500)
        self.write(b"this try fails\n")


class _Wait(_Answer):
    async def get(self) -> None:
        """Answer after the `seconds` that are asked for, as a slow service would."""
        try:
            seconds = float(self.get_query_argument("seconds", "0"))
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= LONGEST_WAIT:
            self.set_status(400)
            self.write(f"ask /wait?seconds= from 0 to {LONGEST_WAIT:g}\n")
            return
        await asyncio.sleep(self.given["latency_s"] + seconds)
        self.write(b"waited\n")


class _Status(_Answer):
    async def get(self) -> None:
        flaky = self.given["flaky"]
        self.write({"flaky_tries": flaky.tries, "flaky_failures": flaky.failures})
