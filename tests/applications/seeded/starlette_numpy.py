"""Starlette: products of matrices in four processes, each with threads of BLAS."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

MATRIX = np.eye(160) * 0.5


def total(number: int) -> float:
    found = MATRIX
    for _ in range(20):
        found = found @ MATRIX
    return float(found.sum()) + number


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    with ProcessPoolExecutor(4) as pool:
        app.state.pool = pool
        yield


async def quote(request: Request) -> JSONResponse:
    number = int(request.path_params["number"])
    loop = asyncio.get_running_loop()
    return JSONResponse(await loop.run_in_executor(request.app.state.pool, total, number))


app = Starlette(routes=[Route("/quote/{number}", quote)], lifespan=lifespan)
