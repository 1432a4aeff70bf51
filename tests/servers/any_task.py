"""A task that runs the task named in the file ANY_TASK: one server runs them all.

It notes in the file ANY_EVENTS when that task begins and ends.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from offload import tasks

BEGINS, ENDS = "begins\n", "ends\n"


def any_task() -> Any:
    """Run the task: return its result or an awaitable, or raise its error."""
    function = tasks.resolve(Path(os.environ["ANY_TASK"]).read_text())
    _note(BEGINS)
    awaited = False
    try:
        result = function()
        awaited = inspect.isawaitable(result)
    finally:
        if not awaited:
            _note(ENDS)
    return _until_it_ends(result) if awaited else result


async def _until_it_ends(result: Awaitable[Any]) -> Any:
    try:
        return await result
    finally:
        _note(ENDS)


def _note(event: str) -> None:
    with Path(os.environ["ANY_EVENTS"]).open("a") as file:
        file.write(event)
