"""The content of a response: the part that must be equal in both cases of a claim."""

from __future__ import annotations

import hashlib

from offload.errors import StartError
from offload.registry import catalog
from offload.suites import _module

WHOLE = 160  # characters; a longer content is replaced by its start and a hash


def comparable_content(suite: str | None, body: bytes) -> str | None:
    """Return the result of a suite's `extract(body)`; None if the suite does not define it.

    Raise StartError if `extract` cannot read the body, for example an error with status 200.
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
