"""anyio's tests of its worker processes, run on our pool."""

from __future__ import annotations

import pytest

from tests.peers import running

PEER = running.Peer(
    "anyio",
    files=("tests/test_to_process.py",),
    options=("-o", "anyio_mode=auto"),
    sample=(),
)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_peer(peer_test: str) -> None:
    running.check(PEER, peer_test)
