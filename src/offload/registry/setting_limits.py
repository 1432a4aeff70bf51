"""The limits of the settings of servers: the command line and the servers check the same ones."""

from __future__ import annotations

MAXIMA = {
    "workers": 256,
    "processes": 64,
    "threads": 256,
    "backlog": 65535,
    "max_connections": 65535,
}
YES_OR_NO = ("idempotent", "isolate", "preload", "protect", "health")
SECONDS = ("max_wait", "task_timeout")
MIN_S, MAX_S = 0.1, 3600.0  # of SECONDS; with less than 0.1 s, a busy machine would time out


def maximum(key: str, default: object) -> int:
    """Return the largest number for a setting; a default may be larger than usual, as gevent's."""
    return max(MAXIMA.get(key, 65535), default if isinstance(default, int) else 0)
