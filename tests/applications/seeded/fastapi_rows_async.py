"""FastAPI: an async generator yields rows, without a thread for each. Seeded: nothing."""

from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


async def rows() -> AsyncIterator[str]:
    for number in range(100):
        yield f"{number},{number * 7}\n"


@app.get("/quote/{number}")
async def quote(number: int) -> StreamingResponse:
    return StreamingResponse(rows(), media_type="text/csv")
