"""loky's tests of its executors, run on ours."""

from __future__ import annotations

import pytest

from tests.peers import running

pytestmark = pytest.mark.server

PEER = running.Peer(
    "loky",
    files=(
        "tests/test_process_executor_spawn.py",
        "tests/test_reusable_executor.py",
        "tests/test_worker_timeout.py",
        "tests/test_loky_module.py",
    ),
    sample=(
        "test_process_executor_spawn.py::TestsProcessPoolSpawnExecutor::test_submit_from_callback",
        "test_process_executor_spawn.py::TestsProcessPoolSpawnExecutor::test_thread_safety",
        "test_reusable_executor.py::TestExecutorDeadLock::test_queue_full_deadlock",
        "test_reusable_executor.py::TestExecutorDeadLock::test_crash_races[5]",
    ),
)


@pytest.mark.timeout(180)
def test_peer(peer_test: str) -> None:
    running.check(PEER, peer_test)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_entry_of_the_tables_names_a_test() -> None:
    running.check_tables(PEER)
