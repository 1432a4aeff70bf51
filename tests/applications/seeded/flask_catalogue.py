"""Flask: a view that keeps rows, beside a large catalogue of objects. Seeded: collector."""

from collections import deque

from flask import Flask


class Item:
    """An item of the catalogue."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tags = [number % 7, number % 11]


app = Flask(__name__)
CATALOGUE = [Item(number) for number in range(300_000)]
HISTORY: deque[list[tuple[int, list[int]]]] = deque(maxlen=80)


@app.get("/quote/<int:number>")
def quote(number: int) -> str:
    HISTORY.append([(each, [number]) for each in range(3000)])
    return str(CATALOGUE[number].number)
