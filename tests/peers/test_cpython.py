"""CPython's own tests of ProcessPoolExecutor, run on our executor.

They are those of the running Python and, in `make test-all`, of the newest other one here from 3.13
on. From 3.12 on they are a package. Of the variants by start method one runs: our executor ignores
the context.
"""

from __future__ import annotations

import functools
import sys

import pytest

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

BETTER_SINCE_3_13 = {
    "test_python_finalization_error": (
        "the second thread, which cannot start there, does not exist: the executor has one"
    )
}

LEFT_OUT = {
    "test_idle_process_reuse_one": ALL_AT_ONCE,
    "test_idle_process_reuse_multiple": ALL_AT_ONCE,
}

NOT_RUN = {"test_max_workers_too_large": "for Windows only"}

pytestmark = pytest.mark.server


def peer(python: str, version: tuple[int, ...], sample: tuple[str, ...] = ()) -> running.Peer:
    """Return the tests of an interpreter."""
    since = BETTER_SINCE_3_13 if version >= (3, 13) else {}
    return running.Peer(
        "cpython",
        files=(
            "test/test_concurrent_futures.py",
            *(
                f"test/test_concurrent_futures/test_{name}.py"
                for name in ("as_completed", "deadlock", "init", "process_pool", "shutdown", "wait")
            ),
        ),
        sample=sample,
        better={**BETTER, **since},
        left_out=LEFT_OUT,
        not_run=NOT_RUN,
        python=python,
    )


@functools.cache
def newest() -> running.Peer | None:
    """Return the tests of the newest other interpreter from 3.13 on that has the GIL, if any."""
    from bench import pythons

    for each in pythons.found():
        version = tuple(map(int, each.version.split(".")))
        if version >= (3, 13) and each.gil_enabled and each.path != sys.executable:
            return peer(each.path, version)
    return None


SAMPLE = (
    "test_concurrent_futures.py::ProcessPoolForkserverProcessPoolShutdownTest::test_cancel_futures",
    "test_concurrent_futures.py::ProcessPoolForkserverProcessPoolShutdownTest::test_hang_gh83386",
    "test_concurrent_futures.py::ProcessPoolForkserverProcessPoolShutdownTest::test_interpreter_shutdown",
    "test_concurrent_futures.py::ProcessPoolForkserverProcessPoolShutdownTest::test_submit_after_interpreter_shutdown",
    "test_concurrent_futures.py::ProcessPoolForkserverProcessPoolExecutorTest::test_killed_child",
    "test_concurrent_futures.py::ProcessPoolForkserverProcessPoolExecutorTest::test_no_stale_references",
    "test_concurrent_futures.py::ProcessPoolForkserverProcessPoolExecutorTest::test_ressources_gced_in_workers",
    "test_concurrent_futures.py::ProcessPoolForkserverExecutorDeadlockTest::test_crash_during_result_pickle_on_worker",
    "test_concurrent_futures.py::ProcessPoolForkserverExecutorDeadlockTest::test_shutdown_deadlock_pickle",
)
PEER = peer(sys.executable, sys.version_info[:2], SAMPLE)


@pytest.mark.timeout(300)
def test_sample() -> None:
    running.check_sample(PEER)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_peer(peer_test: str) -> None:
    running.check(PEER, peer_test)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_newest(newest_test: str) -> None:
    found = newest()
    if found is None:
        pytest.skip("there is no other Python from 3.13 on: fab pythons says how to get one")
    running.check(found, newest_test)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_entry_of_the_tables_names_a_test() -> None:
    for peer_ in filter(None, (PEER, newest())):
        running.check_tables(peer_)
