"""Flask: own threads compute what requests ask for. The twin of flask_tables: gil_saturated."""

import queue
import threading

from flask import Flask

app = Flask(__name__)
CALLS: queue.Queue[tuple[int, queue.SimpleQueue[str]]] = queue.Queue()


def answer() -> None:
    while True:
        number, into = CALLS.get()
        into.put(str(sum(item * item % 7 for item in range(number, number + 100_000))))


for _ in range(2):
    threading.Thread(target=answer, daemon=True).start()


@app.get("/quote/<int:number>")
def quote(number: int) -> str:
    into: queue.SimpleQueue[str] = queue.SimpleQueue()
    CALLS.put((number, into))
    return into.get()
