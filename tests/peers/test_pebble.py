"""pebble's tests of its process pool, run on ours."""

from __future__ import annotations

import pytest

from tests.peers import running

PRIVATE = "replaces a function of pebble's own modules, which our pool does not call"

BETTER = {
    "test_process_pool_broken_pickling_error": (
        "an exception that cannot be rebuilt raises RemoteError for its task; the pool goes on"
    ),
    "test_process_pool_stop_futures": "no future is left pending when the pool has ended",
    "test_process_pool_stop_cancel": (
        "a task that is cancelled before it runs costs no worker: the next one has the same pid"
    ),
}

LEFT_OUT = {
    "test_process_pool_active_error": PRIVATE,
    "test_process_pool_broken_worker_launch": PRIVATE,
    "TestProcessPoolDeadlockOnNewFutures": PRIVATE,
    "TestProcessPoolDeadlockOnResult": PRIVATE,
    "test_process_pool_map_broken_pool": "sets the private attribute _context.status",
}

pytestmark = pytest.mark.server

PEER = running.Peer(
    "pebble",
    files=("test/test_process_pool_forkserver.py",),
    sample=(
        "test_process_pool_forkserver.py::TestProcessPool::test_process_pool_ignoring_sigterm",
        "test_process_pool_forkserver.py::TestProcessPool::test_process_pool_stop_timeout",
        "test_process_pool_forkserver.py::TestProcessPool::test_process_pool_stop_large_data",
        "test_process_pool_forkserver.py::TestProcessPool::test_process_pool_child_pebble",
        "test_process_pool_forkserver.py::TestProcessPool::test_process_pool_stop_stopped_callback",
    ),
    better=BETTER,
    left_out=LEFT_OUT,
)


@pytest.mark.slow  # its sources are downloaded and built
@pytest.mark.timeout(300)
def test_sample() -> None:
    running.check_sample(PEER)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_peer(peer_test: str) -> None:
    running.check(PEER, peer_test)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_entry_of_the_tables_names_a_test() -> None:
    running.check_tables(PEER)
