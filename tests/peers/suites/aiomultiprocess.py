"""aiomultiprocess's tests of its pool, run on ours."""

from __future__ import annotations

from tests.peers.running import Peer
from tests.peers.sources import Sdist

PEER = Peer(
    "aiomultiprocess",
    sdist=Sdist(
        "aiomultiprocess",
        "0.9.1",
        "f0231dbe0291e15325d7896ebeae0002d95a4f2675426ca05eb35f24c60e495b",
    ),
    files=tuple(
        f"aiomultiprocess/tests/{name}.py" for name in ("pool", "core", "scheduler", "perf")
    ),
    better={
        "test_pool_exception": "the error of a task is raised itself, not an error with its text",
    },
    left_out={
        "test_pool_args": "the pool has no count of queues",
        "test_pool_exception_handler": "the pool has no function that workers call with each error",
    },
    not_run={
        "core.py": "tests single processes, not a pool",
        "scheduler.py": "tests the schedule of a pool with several queues: ours has one",
        "perf.py": "measures speed",
        **dict.fromkeys(
            ("test_pool_worker_max_tasks", "test_pool_worker_stop", "test_pool_worker_exceptions"),
            "tests the process of a worker, to which it sends tasks itself",
        ),
    },
)
