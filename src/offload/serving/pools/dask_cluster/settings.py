"""dask's settings for the clusters that this project starts, in this process and its workers."""

from __future__ import annotations

import logging
import multiprocessing
from pathlib import Path
from typing import Any

import dask
from distributed import utils

QUIET = logging.CRITICAL + 1  # failures are errors of requests, and logged once there


def silence() -> None:
    """Log nothing of dask in this process."""
    for name in [*logging.Logger.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":  # each may have a level of its own
            logging.getLogger(name).setLevel(QUIET)


def apply(folder: Path, failures: int) -> None:
    """Set them in this process, before it creates a scheduler or a worker.

    A task is repeated if at most `failures` workers that had it have died.
    """
    silence()
    # Otherwise distributed also imports numpy and pandas here and there, which takes seconds.
    utils._forkserver_preload_set = True
    multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed"])
    dask.config.set(
        {
            "temporary-directory": str(folder),
            "distributed.scheduler.allowed-failures": failures,
            "distributed.scheduler.http.routes": [],  # no dashboard, metrics or other pages
            "distributed.worker.http.routes": [],
            # Workers are forked by a process that has imported distributed: they start fast.
            "distributed.worker.multiprocessing-method": "forkserver",
            "distributed.worker.profile.enabled": False,
            "distributed.admin.log-length": 100,
            "distributed.admin.low-level-log-length": 100,
        }
    )


OF_WORKER = {"memory_limit": 0, "death_timeout": None, "silence_logs": QUIET}  # 0: no limit


def without_pages(host: str) -> dict[str, Any]:
    """Return the arguments of a scheduler or worker that has no dashboard.

    dask opens a port for its pages all the same, so it is one of `host`.
    """
    return {"dashboard": False, "dashboard_address": f"{host}:0"}
