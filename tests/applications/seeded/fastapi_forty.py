"""FastAPI: a def route that waits, for more users than anyio has threads. Seeded: thread_limit."""

import time

from fastapi import FastAPI

app = FastAPI()


@app.get("/quote/{number}")
def quote(number: int) -> dict[str, int]:
    time.sleep(0.2)
    return {"number": number}
