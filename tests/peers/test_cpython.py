"""CPython's own tests of ProcessPoolExecutor, run on our executor."""

from __future__ import annotations

import pytest

from tests.peers import running

PEER = running.Peer(
    "cpython",
    files=(
        "test/test_concurrent_futures.py",
        *(
            f"test/test_concurrent_futures/test_{name}.py"
            for name in ("as_completed", "deadlock", "init", "process_pool", "shutdown", "wait")
        ),
    ),
    sample=(),
)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_peer(peer_test: str) -> None:
    running.check(PEER, peer_test)
