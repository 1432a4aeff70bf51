"""FastAPI: calls for which no request waits, in threads that end them in time. Seeded: nothing."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI

app = FastAPI()
AUDIT = ThreadPoolExecutor(12)


@app.get("/quote/{number}")
async def quote(number: int) -> dict[str, int]:
    AUDIT.submit(time.sleep, 0.02)
    await asyncio.sleep(0.1)
    return {"number": number}
