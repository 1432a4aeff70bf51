"""A background task keeps asyncio's default executor full, which each request needs for a bit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI


async def copy() -> None:
    """Copy the parts of a table again and again."""
    while True:
        await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.04) for _ in range(24)))


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Run the task beside the requests."""
    task = asyncio.create_task(copy())
    yield
    task.cancel()


app = FastAPI(lifespan=lifespan)


@app.get("/quote/{item}")
async def quote(item: int) -> dict[str, str]:
    """Make one short call in a thread."""
    return {"item": await asyncio.to_thread(str, item)}
