"""Replace characters that terminals or documents cannot show."""

from __future__ import annotations

import re

from offload.errors import escape_hidden

# Control characters, single surrogates, and characters that are invalid in XML.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Replace characters that are invalid in documents; escape those that a reader cannot see."""
    return UNPRINTABLE.sub("\ufffd", escape_hidden(text))
