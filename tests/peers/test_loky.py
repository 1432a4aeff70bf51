"""loky's tests of its executors, run on ours."""

from __future__ import annotations

import pytest

from tests.peers import running

PEER = running.Peer(
    "loky",
    files=(
        "tests/test_process_executor_spawn.py",
        "tests/test_reusable_executor.py",
        "tests/test_worker_timeout.py",
        "tests/test_loky_module.py",
    ),
    sample=(),
)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_peer(peer_test: str) -> None:
    running.check(PEER, peer_test)
