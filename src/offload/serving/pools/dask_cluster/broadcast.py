"""Run a function on each worker of a cluster, without waiting for workers that hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from distributed import Client


async def run_on_each(
    client: Client,
    workers: Collection[str],
    patience_s: float | None,
    function: Callable[..., object],
    *arguments: object,
) -> dict[str, Any]:
    """Return the result of each worker that responds within `patience_s`; None is no limit.

    dask's `client.run` waits for all workers, and fails if one of them fails. A worker that ends
    meanwhile is omitted. Raise an error of the function.
    """
    if not workers:
        return {}
    calls = {name: asyncio.create_task(_run(client, name, function, arguments)) for name in workers}
    try:
        await asyncio.wait(calls.values(), timeout=patience_s)
    finally:
        for call in calls.values():
            call.cancel()
    ended = {name: call for name, call in calls.items() if call.done()}
    errors = {name: call.exception() for name, call in ended.items()}
    for error in errors.values():
        if error is not None and not isinstance(error, OSError):  # OSError: a lost connection
            raise error
    return {name: call.result() for name, call in ended.items() if errors[name] is None}


async def _run(
    client: Client, name: str, function: Callable[..., object], arguments: tuple[object, ...]
) -> Any:
    return (await client.run(function, *arguments, workers=[name]))[name]
