"""XML parsed with the standard library: C code that holds the GIL."""

from __future__ import annotations

from offload.tasks._etree import parse
from offload.tasks._feed import FEED


def xml_etree_sync() -> bytes:
    """Parse in C: a feed by xml.etree, which holds the GIL."""
    return parse(FEED.read_bytes())
