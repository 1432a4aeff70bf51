"""CPython's own tests of ProcessPoolExecutor, run on our executor.

The tests of the running Python run and, in `make test-all`, those of the newest other one here from
3.13 on. Since 3.12 they are a package. Only one start-method variant runs, because our executor
ignores the context.
"""

from __future__ import annotations

import sys

from tests import installed
from tests.peers import running

ALONE = "what does not pickle fails alone: the task raises what unpickling raised"
TASK_EXIT = "sys.exit() in a task raises TaskExit: SystemExit would end the caller"
ALL_AT_ONCE = "all workers start with the first call: none is started on demand"

BETTER = {
    "ProcessPoolForkserverFailingInitializerTest": (
        "BrokenWorker has the error of the initializer; nothing is logged"
    ),
    "test_killed_child": "a worker that dies fails only the task that it ran; the pool goes on",
    "test_error_at_task_unpickle": ALONE,
    "test_exit_at_task_unpickle": f"{ALONE}; {TASK_EXIT}",
    "test_error_during_result_unpickle_in_result_handler": ALONE,
    "test_exit_during_func_exec_on_worker": TASK_EXIT,
    "test_exit_during_result_pickle_on_worker": TASK_EXIT,
    "test_exit_during_result_unpickle_in_result_handler": TASK_EXIT,
    "test_max_tasks_per_child_defaults_to_spawn_context": (
        "max_tasks_per_child needs no context: mp_context is not used"
    ),
}

LEFT_OUT = {
    "test_idle_process_reuse_one": ALL_AT_ONCE,
    "test_idle_process_reuse_multiple": ALL_AT_ONCE,
}

NOT_RUN = {"test_max_workers_too_large": "for Windows only"}

COMPLETES = "a collected executor completes its calls, by new workers where it must"
CALLS_PRIVATE = "it calls, replaces or counts calls of private attributes"

BETTER_SINCE_3_13 = {
    "test_python_finalization_error": (
        "the second thread, which cannot start there, does not exist: the executor has one"
    )
}
BETTER_SINCE_3_14 = {
    "test_shutdown_no_wait_max_tasks_gh119592": COMPLETES,
    "test_gc_during_max_tasks_worker_exit_gh152967": COMPLETES,
}
LEFT_OUT_SINCE_3_14 = {
    "test_terminate_workers": CALLS_PRIVATE,
    "test_kill_workers": CALLS_PRIVATE,
    "test_force_shutdown_workers": CALLS_PRIVATE,
    "test_force_shutdown_workers_invalid_op": CALLS_PRIVATE,
    "test_force_shutdown_during_max_tasks_worker_exit": CALLS_PRIVATE,
    "test_failed_worker_replacement_breaks_pool": CALLS_PRIVATE,
}
NOT_RUN_SINCE_3_14 = {
    "test_broken_process_pool_traceback": (
        "it would wait for ever: a worker that dies fails only the task that it ran"
    )
}


def peer(python: str, version: tuple[int, ...]) -> running.Peer:
    """Return the tests of an interpreter."""
    is_3_13, is_3_14 = version >= (3, 13), version >= (3, 14)
    better = BETTER | (BETTER_SINCE_3_13 if is_3_13 else {})
    better |= BETTER_SINCE_3_14 if is_3_14 else {}
    return running.Peer(
        "cpython",
        files=(
            "test/test_concurrent_futures.py",
            *(
                f"test/test_concurrent_futures/test_{name}.py"
                for name in ("as_completed", "deadlock", "init", "process_pool", "shutdown", "wait")
            ),
        ),
        better=better,
        left_out=LEFT_OUT | (LEFT_OUT_SINCE_3_14 if is_3_14 else {}),
        not_run=NOT_RUN | (NOT_RUN_SINCE_3_14 if is_3_14 else {}),
        python=python,
    )


def peers() -> list[running.Peer]:
    """Return the tests of the running interpreter and of the newest other one from 3.13 on."""
    other = installed.newest_other_python((3, 13))
    found = [(other.path, tuple(map(int, other.version.split("."))))] if other else []
    return [peer(*each) for each in [(sys.executable, sys.version_info[:2]), *found]]
