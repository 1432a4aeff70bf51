"""pebble's tests of its process pool, run on ours."""

from __future__ import annotations

from tests.peers.running import Peer
from tests.peers.sources import Sdist

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

PEER = Peer(
    "pebble",
    sdist=Sdist(
        "pebble", "5.2.3", "6fce8cc8cbf367588406f66e4b62ec36e22594a6c720bff1d08cc2e565a66af3"
    ),
    files=("test/test_process_pool_forkserver.py",),
    better=BETTER,
    left_out=LEFT_OUT,
)
