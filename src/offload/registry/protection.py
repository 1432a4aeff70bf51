"""The settings of a server's protection: the keyword parameters that Tornado's servers share."""

from __future__ import annotations

from typing import TypedDict

PARAMETER = "protection"  # `serve(..., **protection: Unpack[Settings])` has all these settings
UNAVAILABLE = "not available"  # in the facts of a server that has no protection


class Settings(TypedDict, total=False):
    """Times are in seconds. `health` adds /healthz, /readyz and /metrics, also without protect."""

    protect: str
    max_wait: float
    task_timeout: float
    max_connections: int
    health: str


DEFAULTS = Settings(
    protect="no", max_wait=5.0, task_timeout=30.0, max_connections=2048, health="no"
)
