"""The HTTP methods of a task: GET runs it, HEAD runs it and sends no body."""

from __future__ import annotations

ALLOW = "GET, HEAD"  # the value of the Allow header in a 405 response


def is_allowed(method: str | None) -> bool:
    """Whether a request with this method may run the task."""
    return method in ("GET", "HEAD")
