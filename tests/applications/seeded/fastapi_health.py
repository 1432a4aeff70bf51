"""FastAPI: a def route that waits, and health checks as a def and an async def route.

Seeded: thread_limit, of which /healthz is a victim and /livez is not.
"""

import time

from fastapi import FastAPI

app = FastAPI()


@app.get("/report/{number}")
def report(number: int) -> dict[str, int]:
    time.sleep(0.8)
    return {"number": number}


@app.get("/healthz")
def healthz() -> dict[str, str]:
    return {"state": "ok"}


@app.get("/livez")
async def livez() -> dict[str, str]:
    return {"state": "ok"}
