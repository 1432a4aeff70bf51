"""Run the test suites of the peers on our pool."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.peers import running

pytestmark = [pytest.mark.server, pytest.mark.slow]  # the sources are downloaded and built


@pytest.mark.timeout(900)
def test_suite(peer: running.Peer, tests: tuple[str, ...]) -> None:
    running.check(peer, *tests)


@pytest.mark.timeout(300)
def test_tables(peer: running.Peer, record_property: Callable[[str, object], None]) -> None:
    running.check_tables(peer)
    record_property("peer", running.summary(peer))
