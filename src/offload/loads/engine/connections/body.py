"""The headers that describe the body of a request or a response."""

from __future__ import annotations

FORM = "application/x-www-form-urlencoded"  # the default of load tools


def content_type(body: str) -> str:
    """Return the content type of a request's body: JSON if it looks like JSON, else a form."""
    return "application/json" if body.lstrip()[:1] in ("{", "[") else FORM


def ends_by_close(head: bytes) -> bool:
    """Whether a response has no length, so that its body ends with the connection.

    False if `head` is incomplete.
    """
    head, end, _ = head.partition(b"\r\n\r\n")
    lower = head.lower()
    return bool(end) and b"content-length:" not in lower and b"chunked" not in lower
