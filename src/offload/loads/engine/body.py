"""The body of a request or an answer: what its head says of it."""

from __future__ import annotations

FORM = "application/x-www-form-urlencoded"  # what load tools say when they are not told


def content_type(body: str) -> str:
    """Name the type of a request's body, for every driver: JSON if it looks so, else a form."""
    return "application/json" if body.lstrip()[:1] in ("{", "[") else FORM


def ends_by_close(head: bytes) -> bool:
    """Say whether an answer's head is whole and names no length: its body ends with the stream."""
    head, end, _ = head.partition(b"\r\n\r\n")
    lower = head.lower()
    return bool(end) and b"content-length:" not in lower and b"chunked" not in lower
