"""FastAPI: an async route that waits in asyncio's default executor. Seeded: default_executor."""

import asyncio
import time

from fastapi import FastAPI

app = FastAPI()


@app.get("/quote/{number}")
async def quote(number: int) -> dict[str, int]:
    await asyncio.to_thread(time.sleep, 0.08)
    return {"number": number}
