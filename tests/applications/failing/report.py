"""WSGI: a report computes its parts in a pool, which also computes reports; or in another one."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

REPORTS, PARTS = ThreadPoolExecutor(3), ThreadPoolExecutor(3)


def part() -> bytes:
    """Compute a part."""
    time.sleep(0.005)
    return b"p"


def report(pool: ThreadPoolExecutor) -> bytes:
    """Compute a report, whose parts run in `pool`."""
    done, _ = wait([pool.submit(part), pool.submit(part)])
    return b"".join(each.result() for each in done)


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Serve reports."""
    pool = REPORTS if environ["PATH_INFO"] == "/nested" else PARTS
    body = REPORTS.submit(report, pool).result()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
