"""Hostile XML is rejected quickly; nothing is expanded and nothing is requested."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from offload.tasks import _etree, _feedparser, _lxml

LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "ha">%s]>
<rss version="2.0"><channel><item><title>&j;</title></item></channel></rss>""" % b"".join(
    b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)
)
ENTITY = b"""<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY x SYSTEM "%s">]>
<rss version="2.0"><channel><item><title>&x;</title></item></channel></rss>"""
PARSERS = [_feedparser.parse, _lxml.parse, _etree.parse]


def _seconds(parse: Callable[[bytes], bytes], body: bytes) -> tuple[float, bytes]:
    """Return the CPU time of a parse; other processes change it only a little."""
    start = time.thread_time()
    try:
        answer = parse(body)
    except ValueError as error:
        answer = str(error).encode()
    return time.thread_time() - start, answer


@pytest.mark.parametrize("parse", PARSERS)
def test_billion_laughs_are_refused_within_100_ms(parse: Callable[[bytes], bytes]) -> None:
    seconds, answer = _seconds(parse, LAUGHS)
    assert answer.startswith((b"a feed with a DTD is refused", b"no feed in these"))
    assert seconds < 3 * 0.1


@pytest.mark.parametrize("parse", PARSERS)
def test_external_entity_is_not_read(parse: Callable[[bytes], bytes], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    seconds, answer = _seconds(parse, ENTITY % secret.as_uri().encode())
    assert b"the secret" not in answer
    assert seconds < 3 * 0.1


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "body", [b"http://127.0.0.1:%d/feed.xml", ENTITY % b"http://127.0.0.1:%d/"]
)
def test_nothing_is_fetched(parse: Callable[[bytes], bytes], body: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        _seconds(parse, body % server.getsockname()[1])
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("body", [b"", b"/etc/hostname", b"<p>no feed</p>", b"\x00\xff" * 10])
def test_what_is_no_feed_is_refused(parse: Callable[[bytes], bytes], body: bytes) -> None:
    with pytest.raises(ValueError, match="no feed in these"):
        parse(body)


def test_deep_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="no feed in these"):
        _lxml.parse(b"<rss>" + b"<a>" * 100_000)


@pytest.mark.parametrize("parse", PARSERS)
def test_a_parsing_task_takes_0_1_to_0_3_s(parse: Callable[[bytes], bytes]) -> None:
    from offload.tasks._feed import FEED

    assert 0.1 / 3 < _seconds(parse, FEED.read_bytes())[0] < 3 * 0.3
