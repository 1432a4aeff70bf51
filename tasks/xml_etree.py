"""XML parsed by the standard library: C code that holds the interpreter lock."""

from __future__ import annotations

from offload.tasks._etree import parse
from offload.tasks._feed import FEED


def xml_etree_sync() -> bytes:
    """Parse a feed by xml.etree, in C, which holds the interpreter lock."""
    return parse(FEED.read_bytes())
