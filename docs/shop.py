"""An example for the README: a handler's function that waits for a database and computes."""

from __future__ import annotations

import json
import time

DATABASE_S = 0.02  # s of a query
ITEMS = 20_000


def quote() -> str:
    """Read the prices of a basket, and return its total with discounts as JSON."""
    time.sleep(DATABASE_S)  # a query: it waits, and releases the GIL
    total = sum(price * (100 - price % 7) for price in range(ITEMS)) // 100
    return json.dumps({"items": ITEMS, "total": total})
