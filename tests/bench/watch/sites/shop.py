"""Routes that block their event loop, or fill a pool of threads, and those that do not."""

from __future__ import annotations

import asyncio
import time

from fastapi import FastAPI

app = FastAPI()


def print_receipt() -> None:
    """Wait as a driver without asyncio does."""
    time.sleep(0.15)


@app.get("/receipt")
async def receipt() -> dict[str, bool]:
    """Block the event loop."""
    print_receipt()
    return {"printed": True}


@app.get("/receipt/awaited")
async def receipt_awaited() -> dict[str, bool]:
    """Take as long, but await."""
    await asyncio.sleep(0.15)
    return {"printed": True}


@app.get("/invoice")
def invoice() -> dict[str, bool]:
    """Wait in a thread of anyio."""
    time.sleep(2)
    return {"sent": True}


@app.get("/lookup")
async def lookup() -> dict[str, bool]:
    """Wait in a thread of asyncio's default executor."""
    await asyncio.to_thread(time.sleep, 2)
    return {"found": True}


@app.get("/forecast")
async def forecast() -> dict[str, int]:
    """Compute on the event loop."""
    return {"total": sum(n * n for n in range(600_000))}


@app.get("/label")
async def label() -> dict[str, str]:
    """Return at once."""
    return {"text": "fragile"}
