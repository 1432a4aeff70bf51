"""The body of a request: what is said of it, alike by all drivers."""

from __future__ import annotations

FORM = "application/x-www-form-urlencoded"  # what load tools say when they are not told


def content_type(body: str) -> str:
    """Name a body's type: JSON when it looks like it, else a form as load tools call it."""
    return "application/json" if body.lstrip()[:1] in ("{", "[") else FORM
