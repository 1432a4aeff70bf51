"""The tasks of dask_break_even and dask_kill."""

import os
import secrets
import time
from pathlib import Path


def spin():
    """Compute in pure Python for the CPU time written in the file SPIN, in ms."""
    until = time.thread_time() + float(Path(os.environ["SPIN"]).read_text()) / 1000
    while time.thread_time() < until:
        pass
    return b"done"


def charge():
    """Append the key of the request to the file RUNS, wait 5 to 50 ms, and return the key."""
    from distributed import get_worker

    key = get_worker().get_current_task()
    runs = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(runs, f"{key}\n".encode())
    finally:
        os.close(runs)
    time.sleep(0.005 + secrets.randbelow(45) / 1000)
    return key
