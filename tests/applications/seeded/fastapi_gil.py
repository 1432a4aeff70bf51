"""FastAPI: a def route that computes in Python, in threads. Seeded: gil_saturated."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/quote/{number}")
def quote(number: int) -> dict[str, int]:
    return {"number": sum(item * item % 7 for item in range(150_000))}
