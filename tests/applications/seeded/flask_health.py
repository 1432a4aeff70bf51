"""Flask: a view that waits, and a health check, which waits for a thread of the server."""

import time

from flask import Flask

app = Flask(__name__)


@app.get("/report/<int:number>")
def report(number: int) -> str:
    time.sleep(0.6)
    return str(number)


@app.get("/health/")
def health() -> str:
    return "ok"
