"""The content of an answer: what of it the two cases of a claim must have in common."""

from __future__ import annotations

import hashlib

from offload.errors import StartError
from offload.registry import catalog
from offload.suites import _module

WHOLE = 160  # characters of a content that is kept as it is; of a longer one the head and a hash


def comparable_content(suite: str | None, body: bytes) -> str | None:
    """Return what a suite's `extract` takes out of a body; None if the suite has none.

    Raises StartError for a body that it cannot read, such as an error that was answered with 200.
    """
    if suite is None or suite not in catalog.suites():
        return None
    extract = getattr(_module.load(suite), "extract", None)
    if extract is None:
        return None
    try:
        text = str(extract(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = body[:WHOLE].decode(errors="replace")
        raise StartError(f"the response cannot be read by suites/{suite}.py: {text}") from error
    if len(text) <= WHOLE:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    return f"{text[:WHOLE]}... {len(text)} characters, sha256 {digest}"
