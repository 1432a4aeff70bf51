"""FastAPI: calls come faster than the threads of a pool end them. Seeded: backlog_grows."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI

app = FastAPI()
AUDIT = ThreadPoolExecutor(2)


@app.get("/quote/{number}")
async def quote(number: int) -> dict[str, int]:
    AUDIT.submit(time.sleep, 0.02)
    await asyncio.sleep(0.1)
    return {"number": number}
