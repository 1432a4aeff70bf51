"""pebble's tests of its process pool, run on ours."""

from __future__ import annotations

import pytest

from tests.peers import running

PEER = running.Peer(
    "pebble",
    files=("test/test_process_pool_forkserver.py",),
    sample=(),
)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_peer(peer_test: str) -> None:
    running.check(PEER, peer_test)
