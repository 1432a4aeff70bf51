"""The agent on a host: it starts workers, and ends them when its stdin ends.

`ssh_workers` runs `python -P -m offload.serving.pools.dask_cluster.agent`, and sends it one line of
JSON: the address of the scheduler, the keys, and the number of workers.

Stdin ends with the server, also while the workers start: they would wait for its scheduler. If the
server's machine or the network fails, stdin does not end: then the agent ends because it has not
received a heartbeat for SILENCE seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

from distributed import Nanny
from distributed.security import Security

from offload.serving.lifecycle.stop_signal import exit_now
from offload.serving.pools.dask_cluster import folder, settings
from offload.serving.pools.pool_workers import block_signals

READY = "ready"
SILENCE = 60.0  # s without a heartbeat
HEARTBEAT = 5.0  # s between two of them
OWN_ADDRESS = 2  # the place in SSH_CONNECTION of the address by which the client reached this host


def main() -> int:
    """Start the workers, report, and serve until stdin ends."""
    asyncio.run(_serve(json.loads(sys.stdin.readline())))
    return 0


async def _serve(order: dict[str, Any]) -> None:
    ended = _end_of_stdin()
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
        starting = asyncio.gather(*nannies)
        first: set[asyncio.Future[Any]] = {starting, ended}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        exit_now(1)
    starting.result()  # raises the error of a worker's start
    print(READY, flush=True)
    await ended
    await asyncio.gather(*(nanny.close() for nanny in nannies))


def _end_of_stdin() -> asyncio.Future[None]:
    """Return a future that is done when stdin has ended, or is silent."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        loop.remove_reader(0)
        ended.set_result(None)

    silence = loop.call_later(SILENCE, end)

    def read() -> None:
        nonlocal silence
        silence.cancel()
        with suppress(OSError):  # the connection was reset
            if os.read(0, 1 << 12):
                silence = loop.call_later(SILENCE, end)
                return
        end()

    loop.add_reader(0, read)
    return ended


if __name__ == "__main__":
    sys.exit(main())
