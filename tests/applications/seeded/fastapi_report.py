"""FastAPI: a def route whose threads allocate many blocks. Seeded: arenas, if it is measured."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/quote/{number}")
def quote(number: int) -> dict[str, int]:
    parts = [bytes(size) for _ in range(2) for size in range(1000, 50_000, 41)]
    return {"number": number, "parts": len(parts)}
