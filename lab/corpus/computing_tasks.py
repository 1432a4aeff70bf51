"""Two tasks that compute, with which the overhead of strategies is measured.

Servers import this file like a user's own function, by its path.
"""

from __future__ import annotations

import functools
import hashlib
import json

STABLE = True
ORDERS = 2_000
HASHED = 600_000  # bytes


def json_import() -> str:
    """Read 2,000 orders from JSON and sum them up: about 2 ms that hold the GIL."""
    return str(sum(order["cents"] for order in json.loads(_uploaded())))


def native() -> bytes:
    """Compute without the GIL for about 1 ms."""
    digest = hashlib.blake2b(_buffer(), digest_size=8).digest()
    return b"1 %d" % int.from_bytes(digest, "big")


@functools.cache
def _uploaded() -> str:
    return json.dumps(
        [
            {
                "id": n,
                "customer": f"customer {n % 37}",
                "cents": n * 37 % 10_000,
                "lines": [n, n + 1],
            }
            for n in range(ORDERS)
        ]
    )


@functools.cache
def _buffer() -> bytes:
    return (bytes(range(256)) * 8192)[:HASHED]
