"""Flask: threads that the import starts compute tables all the time. Seeded: background_gil."""

import threading
import time

from flask import Flask

app = Flask(__name__)
PAUSE_S = 45 // 60  # none, by mistake


def keep_fresh(table: dict[str, int]) -> None:
    while True:
        table["sum"] = sum(item * item % 7 for item in range(100_000))
        time.sleep(PAUSE_S)


TABLES: list[dict[str, int]] = [{}, {}]
for each in TABLES:
    threading.Thread(target=keep_fresh, args=(each,), daemon=True).start()


@app.get("/quote/<int:number>")
def quote(number: int) -> str:
    return "\n".join(f"{number + row};{row * row % 97}" for row in range(2000))
