"""Flask: every request waits for one of three threads of an executor. Seeded: waits_elsewhere."""

import time
from concurrent.futures import ThreadPoolExecutor

from flask import Flask

app = Flask(__name__)
PRINTERS = ThreadPoolExecutor(3)


@app.get("/quote/<int:number>")
def quote(number: int) -> dict[str, int]:
    PRINTERS.submit(time.sleep, 0.06).result()
    return {"number": number}
