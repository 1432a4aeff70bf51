"""Runs and pages for tests: a real server, and a real client of its events."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import queue
import signal
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from offload.documents import live
from offload.documents.live import LivePage, server
from offload.documents.live.view import Source
from offload.engine import journal
from offload.engine.plan import Block, Fixed, Plan
from offload.engine.record import WINDOW, Record
from offload.suites import Case
from tests.records import changed, new_record

SCRIPT = "<img src=x onerror=alert(1)>\n\ndata: {}"
CASES = (Case("threads", "noop_sync"), Case("processes", "noop_sync"), Case("loop", SCRIPT))
PLAN = Plan(
    "measure", CASES, 7, None, Fixed(rounds=1, quick=True), blocks=(Block((0, 1)), Block((2,)))
)
TIMEOUT = 20.0  # s for each answer, on a busy machine


def new_run(folder: Path) -> Path:
    """Create the folder of a run that has a plan and no records."""
    folder.mkdir()
    journal.save_plan(PLAN, folder)
    return folder


def window(case_index: int, rate: float, number: int = 1) -> Record:
    """Return a record of a case of the plan."""
    record = changed(new_record(CASES[case_index], "run"), kind=WINDOW, block=int(case_index == 2))
    return changed(record, case_index=case_index, round=number, rate=rate, phases={"load": 1.0})


def finish(folder: Path) -> None:
    """Add the records that the plan lacks, and a report."""
    journal.append(
        folder, *(window(case_index, 100.0 * (1 + case_index)) for case_index in range(3))
    )
    (folder / "report.html").write_text("<title>the report</title>")


@contextmanager
def served(source: Source, idle_s: float = 60.0) -> Iterator[str]:
    """Serve a page in a thread; yield its address."""
    found: queue.Queue[str] = queue.Queue()
    loop = asyncio.new_event_loop()
    task = loop.create_task(server.serve(source, idle_s, found.put))

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found.get(timeout=TIMEOUT)
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(task.cancel)
        thread.join(TIMEOUT)
        loop.close()


@contextmanager
def launched(folder: Path, idle_s: float) -> Iterator[LivePage]:
    """Serve the page of a run by a process of its own; end it."""
    page = live.open_run(folder, idle_s)
    try:
        yield page
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(page.pid, signal.SIGKILL)


def answer(
    url: str, path: str = "", method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Return the status, headers and body of `path` below a page."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT)
    try:
        connection.request(method, parts.path + path, headers=headers)
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return response.status, names, response.read()
    finally:
        connection.close()


class Events:
    """The events of a page, as a browser receives them."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT)
        self._connection.request("GET", f"{parts.path}events")
        self._response = self._connection.getresponse()
        self.status = self._response.status

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def next(self) -> Any:
        """Return the next content."""
        is_clock = False
        for content in self._response:  # within the connection's timeout
            line = content.decode()
            is_clock = is_clock or line.startswith("event: clock")
            if line.startswith("data: "):
                if not is_clock:
                    return json.loads(line.removeprefix("data: "))
                is_clock = False
        raise EOFError("the stream has ended")

    def until(self, fact: Callable[[Any], object]) -> Any:
        """Return the first content for which something is true."""
        deadline = time.monotonic() + TIMEOUT
        while not fact(found := self.next()):
            assert time.monotonic() < deadline, found
        return found
