"""Text that terminals and documents can show, whatever a record contains."""

from __future__ import annotations

import re

# Control characters, halves of a character that are no character, and what XML cannot have.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Replace what no document may contain and what a terminal would obey."""
    return UNPRINTABLE.sub("\ufffd", text)
