"""Exports whose rows are registered for a clean-up at exit, which keeps them."""

import atexit

from flask import Flask

app = Flask(__name__)


def render(number):
    return [f"row {row} of export {number}" for row in range(200)]


@app.get("/")
def export():
    rows = render(7)
    atexit.register(rows.clear)
    return rows[-1]
