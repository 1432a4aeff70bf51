"""XML parsed with feedparser: work that holds the GIL."""

from __future__ import annotations

from offload.tasks._feed import FEED
from offload.tasks._feedparser import parse


def xml_feedparser_sync() -> bytes:
    """Parse in Python: a feed by feedparser, which holds the GIL."""
    return parse(FEED.read_bytes())
