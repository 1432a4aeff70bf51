"""The limits of the settings of servers: the command line and the servers check the same ones."""

from __future__ import annotations

from collections.abc import Mapping

from offload.errors import UsageError

MAXIMA = {
    "workers": 256,
    "processes": 64,
    "runtime_threads": 256,
    "backlog": 65535,
    "max_connections": 65535,
}
YES_OR_NO = ("idempotent", "dask_isolate", "protect", "health", "reuse_port")
PRELOADS = ("yes", "no", "freeze")
SECONDS = ("max_wait", "task_timeout")
MIN_S, MAX_S = 0.1, 3600.0  # of SECONDS; with less than 0.1 s, a busy machine would time out


MOST_IN_ALL = 16  # times the maximum of `workers`, in all processes of a server


def check_product(settings: Mapping[str, object], defaults: Mapping[str, object]) -> None:
    """Raise UsageError if a server with both sizes would have too many workers in all processes.

    `settings` may lack sizes, which are then the `defaults`.
    """
    if not {"processes", "workers"} <= defaults.keys():
        return
    known = {**defaults, **settings}
    processes, workers = (int(str(known[key])) for key in ("processes", "workers"))
    most = MOST_IN_ALL * maximum("workers", defaults["workers"])
    if processes * workers > most:
        what = f"{processes} processes of {workers} workers are {processes * workers} workers"
        raise UsageError(what, f"use at most {most} in all processes")


def maximum(key: str, default: object) -> int:
    """Return the largest number for a setting; a default may be larger than usual, as gevent's."""
    return max(MAXIMA.get(key, 65535), default if isinstance(default, int) else 0)
