"""The agent on a host: it starts workers, and ends them when its stdin ends.

`ssh_workers` runs `python -P -m offload.serving.pools.dask_cluster.agent`, and sends it one line of
JSON: the address of the scheduler, the keys, and the number of workers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from distributed import Nanny
from distributed.security import Security

from offload.serving.pools.dask_cluster import folder, settings
from offload.serving.pools.pool_workers import block_signals

READY = "ready"
OWN_ADDRESS = 2  # the place in SSH_CONNECTION of the address by which the client reached this host


def main() -> int:
    """Start the workers, report, and serve until stdin ends."""
    asyncio.run(_serve(json.loads(sys.stdin.readline())))
    return 0


async def _serve(order: dict[str, Any]) -> None:
    keys = order["keys"]
    security = Security(
        tls_ca_file=keys["ca"],
        tls_worker_cert=keys["cert"],
        tls_worker_key=keys["key"],
        require_encryption=True,
    )
    host = os.environ["SSH_CONNECTION"].split()[OWN_ADDRESS]
    settings.apply(folder.create(), failures=0)
    with block_signals():
        nannies = [
            Nanny(
                order["scheduler"],
                nthreads=1,
                host=host,
                security=security,
                **settings.without_pages(host),
                **settings.OF_WORKER,
            )
            for _ in range(order["workers"])
        ]
        await asyncio.gather(*nannies)
    print(READY, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await asyncio.gather(*(nanny.close() for nanny in nannies))


if __name__ == "__main__":
    sys.exit(main())
