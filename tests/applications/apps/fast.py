"""A FastAPI application with a lifespan, `def` and `async def` routes and background work."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import BackgroundTasks, FastAPI
from fastapi.responses import StreamingResponse

done: list[int] = []


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.has_started = True
    yield


@asynccontextmanager
async def failing_lifespan(app: FastAPI) -> AsyncIterator[None]:
    raise OSError("no database")
    yield


app = FastAPI(lifespan=lifespan)
failing = FastAPI(lifespan=failing_lifespan)


@app.get("/quote/{number}")
def quote(number: int) -> dict[str, object]:
    time.sleep(0.05)
    return {"number": number, "has_started": app.state.has_started}


@app.get("/blocks")
async def blocks() -> dict[str, str]:
    time.sleep(0.05)
    return {}


@app.get("/stream")
async def stream() -> StreamingResponse:
    return StreamingResponse(iter(["a", "b", "c"]))


@app.get("/background/{number}")
async def background(number: int, tasks: BackgroundTasks) -> list[int]:
    tasks.add_task(done.append, number)
    return done


@app.get("/bad")
def bad() -> None:
    raise ValueError("no such quote")
