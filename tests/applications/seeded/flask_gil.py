"""Flask: a view that computes in Python. Seeded: gil_saturated."""

from flask import Flask

app = Flask(__name__)


@app.get("/quote/<int:number>")
def quote(number: int) -> str:
    return str(sum(item * item % 7 for item in range(150_000)))
