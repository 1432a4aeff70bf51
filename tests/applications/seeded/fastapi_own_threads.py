"""FastAPI: as many threads of its own as users. The twin of fastapi_to_thread: nothing."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI

app = FastAPI()
POOL = ThreadPoolExecutor(64)


@app.get("/quote/{number}")
async def quote(number: int) -> dict[str, int]:
    await asyncio.get_running_loop().run_in_executor(POOL, time.sleep, 0.08)
    return {"number": number}
