"""Flask: a view whose threads allocate many blocks. Seeded: arenas, if it is measured."""

from flask import Flask

app = Flask(__name__)


@app.get("/quote/<int:number>")
def quote(number: int) -> str:
    lines = [("x" * size).encode() for size in range(2000, 70_000, 29)]
    return f"{number} {len(lines)}"
