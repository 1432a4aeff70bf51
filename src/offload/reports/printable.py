"""Replace characters that terminals or documents cannot show."""

from __future__ import annotations

import re

# Control characters, single surrogates, and characters that are invalid in XML.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Replace characters that are invalid in documents or control a terminal."""
    return UNPRINTABLE.sub("\ufffd", text)
