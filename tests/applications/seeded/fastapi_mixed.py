"""FastAPI: an async route that awaits, and then blocks. Seeded: loop_blocked."""

import asyncio
import time

from fastapi import FastAPI

app = FastAPI()


@app.get("/quote/{number}")
async def quote(number: int) -> dict[str, int]:
    await asyncio.sleep(0.02)
    time.sleep(0.03)
    return {"number": number}
