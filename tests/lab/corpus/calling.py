"""Call a corpus function as a worker process does; print one line of JSON about it.

python -m tests.lab.corpus.calling TASK
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
import pickle
import sys
import time

from offload import tasks


def main(name: str) -> None:
    """Call a function twice in this thread; its own output goes to stderr."""
    out, sys.stdout = sys.stdout, sys.stderr
    function = tasks.resolve(name)
    results, took = [], []
    for _ in range(2):
        began = time.monotonic()
        result = function()
        results.append(asyncio.run(_finish(result)) if inspect.isawaitable(result) else result)
        took.append(time.monotonic() - began)
    raw = [each.encode() if isinstance(each, str) else each for each in results]
    found = {
        "kinds": sorted({type(each).__name__ for each in results}),
        "sha256": [hashlib.sha256(each).hexdigest() for each in raw],
        "bytes": len(raw[0]),
        "took_s": took,
        "pickles_by_name": pickle.loads(pickle.dumps(function)) is function,
    }
    print(json.dumps(found), file=out, flush=True)
    os._exit(0)  # as a killed worker: threads that a function started are not waited for


async def _finish(awaitable: object) -> object:
    return await awaitable  # type: ignore[misc]


if __name__ == "__main__":
    main(sys.argv[1])
