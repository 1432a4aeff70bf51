"""mpire's tests of its pool, run on our executor behind mpire's own methods.

Of the variants by start method only one runs, because our executor ignores it.
"""

from __future__ import annotations

from tests.peers.running import Peer
from tests.peers.sources import Sdist
from tests.peers.suites.loky import TASK_EXIT

PART = "tests a part of mpire that has no counterpart in the pool"
NO_EXIT_RESULT = "what a finalizer returns or raises is not passed on, and it has no timeout"
NO_PINNING = "the pool does not pin workers to CPUs"
PARTS = ("async_result", "comms", "insights", "params", "signal", "utils")

PEER = Peer(
    "mpire",
    sdist=Sdist(
        "mpire",
        "2.8.0",
        "da3d4fc84710762e490870289dd91b6487d0e21dbea9dcc3178e00948d71d9db",
        needs=("tqdm==4.70.1",),
    ),
    files=tuple(f"tests/test_{name}.py" for name in ("pool", *PARTS)),
    better={
        "test_daemon_nested_workerpool": "workers may start pools of their own",
        "test_defunct_processes_exit": TASK_EXIT,
    },
    left_out={
        "test_exit_func": NO_EXIT_RESULT,
        "ExitFuncTest::test_worker_lifespan": NO_EXIT_RESULT,
        "test_exit_func_big_payload": NO_EXIT_RESULT,
        "ExitFuncTest::test_error": NO_EXIT_RESULT,
        "ExitFuncTest::test_start_methods": NO_EXIT_RESULT,
        "test_worker_exit_timeout": NO_EXIT_RESULT,
        "CPUPinningTest": NO_PINNING,
    },
    not_run={
        **dict.fromkeys((f"test_{name}.py" for name in PARTS), PART),
        "ProgressBarTest": "the pool shows no progress",
        "OrderTasksTest": "the pool does not choose the worker of a call",
        "test_second_apply_raises": (
            "its timeout may kill a worker in Event.wait, as it should, and then Event.set hangs"
        ),
        "InitFuncTest::test_worker_lifespan": (
            "counts starts of workers; ours starts a successor before the last task of a worker"
        ),
    },
)
