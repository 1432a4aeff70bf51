"""billiard's tests of its pool, run on our executor.

Its file of integration tests is written in Python 2.
"""

from __future__ import annotations

from tests.peers.running import Peer
from tests.peers.sources import Sdist
from tests.peers.suites.loky import TASK_EXIT

PRIVATE = "calls private parts of billiard's pool"
MESSAGE = "the pool names its own parameter in the error, max_workers or max_tasks_per_child"
IGNORES_SIGTERM = "workers ignore SIGTERM, which a whole process group receives"

PEER = Peer(
    "billiard",
    sdist=Sdist(
        "billiard",
        "4.3.2",
        "9eb83c99b1cf7acb1fed86c1dfd477157000a1a2c0108005c1e5837b55d2acba",
    ),
    files=("t/unit/test_pool.py",),
    options=("-o", "python_classes=test_*"),
    better={"test_system_exit_from_task_replaces_worker": TASK_EXIT},
    left_out={
        "test_worker_terminated_mid_job_is_lost_not_completed": IGNORES_SIGTERM,
        "test_rejects_negative_processes": MESSAGE,
        "test_rejects_non_positive_maxtasksperchild": MESSAGE,
        "test_rejects_bool_for_numeric_pool_args": "True is taken as 1, as everywhere in Python",
        "test_starts_with_zero_processes_and_grows": "a pool has a worker and is not resized",
    },
    not_run=dict.fromkeys(
        (
            "test_imap_rejects_nonpositive_chunksize",
            "test_imap_valid_chunksize_after_rejection",
            "test_memory_error_from_callback_propagates",
            "test_timeout_handler_iterates_with_cache",
            "test_timeout_handler_trywaitkill_windows",
            "test_timeout_handler_trywaitkill_windows_timeout_escalation",
            "test_timeout_handler_trywaitkill_posix_group_leader",
            "test_timeout_handler_trywaitkill_posix_non_group_leader",
            "test_timeout_handler_trywaitkill_missing_posix_functions",
            "test_timeout_handler_trywaitkill_oserror_suppressed",
            "test_on_ready_counter_is_synchronized",
            "test_on_ready_counter_credits_worker_that_ran_the_task",
            "test_graceful_shutdown_delivers_results",
            "test_worker_blocks_term_signal_while_reporting_death",
            "test_terminate_pool_terminates_worker_added_during_shutdown",
        ),
        PRIVATE,
    ),
)
