"""FastAPI: a def route with a pool of two connections. Seeded: waits_elsewhere."""

import connections
from fastapi import FastAPI

app = FastAPI()


@app.get("/quote/{number}")
def quote(number: int) -> dict[str, str]:
    return {"price": connections.query()}
