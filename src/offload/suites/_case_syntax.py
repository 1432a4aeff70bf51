"""The syntax of a case: `3/sleep_sync`, `3x16@3.14/sleep_sync`, `loop/shop.pricing:quote`.

A user's application stands in the place of a task: `uvicorn_httptools/app=shop.web:app`.
"""

from __future__ import annotations

import re

from offload.errors import UsageError
from offload.registry import catalog
from offload.suites import Case

PATTERN = re.compile(
    r"(?P<server>\w+?)(?:x(?P<workers>\d{1,3}))?(?:@(?P<python>[^/]+))?/(?P<task>.+)"
)
MAX_WORKERS = 256
FORM = "SERVER/TASK, as 3/sleep_sync, with x16 for workers and @3.14 for the interpreter"


def case(text: str, which: str = "which case") -> Case:
    """Parse a case; raise UsageError if it is invalid or names nothing.

    `which` is the question to print if `text` is empty.
    """
    if not text:
        raise UsageError(f"{which}? a case is {FORM}")
    found = PATTERN.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not a case: a case is {FORM}")
    server = catalog.find_server(found["server"])
    task = catalog.find_task(found["task"]).name
    settings: dict[str, object] = {}
    if found["workers"] is not None:
        if server.size is None:
            raise UsageError(f"{text!r}: {server.name} has no workers", "leave x out")
        settings[server.size] = int(found["workers"])
        if not 1 <= int(found["workers"]) <= MAX_WORKERS:
            raise UsageError(f"{text!r}: workers must be from 1 to {MAX_WORKERS}")
    catalog.check_work(server, task)
    return Case(server.name, task, settings=settings, python=found["python"])
