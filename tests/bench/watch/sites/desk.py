"""A WSGI application: a view that holds the GIL, one that waits, one that is fast."""

from __future__ import annotations

import os
import time

from flask import Flask

app = Flask(__name__)


def rank(rounds: int) -> int:
    """Hold the GIL."""
    total = 0
    for n in range(rounds):
        total += n % 7
    return total


@app.get("/score")
def score() -> dict[str, int]:
    """Compute in Python."""
    return {"score": rank(400_000)}


@app.get("/wait")
def wait() -> dict[str, bool]:
    """Wait without the GIL."""
    time.sleep(0.15)
    return {"done": True}


@app.get("/pid")
def pid() -> dict[str, int]:
    """Compute for a short time, and return the process."""
    rank(20_000)
    return {"pid": os.getpid()}
