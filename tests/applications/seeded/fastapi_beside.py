"""What runs beside the requests, and limits none: workers of a queue, a full pool, a lock for life.

One request in fifty comes too early, and is refused.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, HTTPException

JOBS: asyncio.Queue[str] = asyncio.Queue()
PRINTERS, LEADS = ThreadPoolExecutor(2), threading.Lock()
NUMBERS = itertools.count(1)


def prepare(page: int) -> None:
    """Prepare a page, and come again after all others."""
    time.sleep(0.05)
    with suppress(RuntimeError):  # the process ends
        PRINTERS.submit(prepare, page)


async def store() -> None:
    """Store the jobs, one after another."""
    while True:
        await JOBS.get()
        await asyncio.sleep(0.002)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Run the printers and the workers of the queue."""
    LEADS.acquire()
    for page in range(40):
        PRINTERS.submit(prepare, page)
    tasks = [asyncio.create_task(store()) for _ in range(40)]
    yield
    for task in tasks:
        task.cancel()


app = FastAPI(lifespan=lifespan)


@app.get("/quote/{item}")
async def quote(item: int) -> dict[str, int]:
    """Wait, for longer at times."""
    number = next(NUMBERS)
    await asyncio.sleep(0.08 if number % 10 == 0 else 0.01)
    if number % 50 == 25:
        raise HTTPException(429, "once more, please")
    JOBS.put_nowait("quoted")
    return {"item": item}
