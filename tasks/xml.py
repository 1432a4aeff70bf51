"""XML parsed by feedparser: the work that holds the interpreter lock."""

from __future__ import annotations

from offload.tasks._feed import FEED
from offload.tasks._feedparser import parse


def xml_feedparser_sync() -> bytes:
    """Parse a feed by feedparser, in Python, which holds the interpreter lock."""
    return parse(FEED.read_bytes())
