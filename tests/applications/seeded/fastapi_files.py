"""FastAPI: threads that need one large block each, which no arena holds. Seeded: gil_saturated.

It looks like fastapi_report: each request takes thousands of new pages from the kernel.
"""

from fastapi import FastAPI

SIZE = 48 << 20  # bytes: above the largest threshold from which malloc maps a block of its own
app = FastAPI()


@app.get("/quote/{number}")
def quote(number: int) -> dict[str, int]:
    block = bytearray(SIZE)
    total = sum(each * each % 7 for each in range(60_000))
    return {"number": number + len(block), "total": total}
