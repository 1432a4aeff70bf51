"""Tasks whose duration a test controls."""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

NAP = 0.2  # s


def nap():
    """Occupy a worker for 0.2 s, and note the start in the file NAPS."""
    with Path(os.environ["NAPS"]).open("a") as file:
        file.write(".")
    time.sleep(NAP)
    return "rested"


def hold():
    """Note the start in the file NAPS, and occupy a worker while the file HANG exists."""
    with Path(os.environ["NAPS"]).open("a") as file:
        file.write(".")
    return hang()


def hang():
    """Never end while the file HANG exists."""
    while Path(os.environ["HANG"]).exists():
        time.sleep(0.02)
    return "done"


def stay():
    """Like `hold`, but never end if the file HANG exists at the start."""
    with Path(os.environ["NAPS"]).open("a") as file:
        file.write(".")
    if Path(os.environ["HANG"]).exists():
        time.sleep(1000)
    return "done"


async def wait():
    """Never end while the file HANG exists, on an event loop."""
    while Path(os.environ["HANG"]).exists():
        await asyncio.sleep(0.02)
    return "done"


async def ignore():
    """Like `wait`, but ignore that it is cancelled."""
    while Path(os.environ["HANG"]).exists():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.02)
    return "done"
