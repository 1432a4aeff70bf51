"""FastAPI: a def generator yields one row at a time, each in a thread. Seeded: thread_hops."""

from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


def rows() -> Iterator[str]:
    for number in range(400):
        yield f"{number},{number * 7}\n"


@app.get("/quote/{number}")
async def quote(number: int) -> StreamingResponse:
    return StreamingResponse(rows(), media_type="text/csv")
