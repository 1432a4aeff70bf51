"""joblib's tests of its backend `loky`, run on our executor in the place of loky's.

Of the variants by backend only those run whose tasks run in this one, which is joblib's default.
"""

from __future__ import annotations

from tests.peers.running import Peer
from tests.peers.sources import Sdist
from tests.peers.suites.loky import NO_GUARD, TASK_EXIT

COPIED = "arrays are copied: the pool has no reducers that keep them in files"
NO_ENV = "the pool has no env for its workers, and needs threadpoolctl"

PEER = Peer(
    "joblib",
    sdist=Sdist(
        "joblib",
        "1.6.0",
        "2ccc96785b12046c08fd6d55839c12857831b54a3c1673ffadd2f04bfc4eda03",
    ),
    files=("joblib/test/test_parallel.py", "joblib/test/test_memmapping.py"),
    better={
        "test_error_capture": TASK_EXIT,
        "test_parallel_pickling": "an argument that does not pickle raises its own error",
        "test_nested_parallel_warnings[loky-multiprocessing-True]": (
            "joblib does not warn that tasks cannot use multiprocessing: here they can"
        ),
    },
    left_out={
        "test_parallel_with_interactively_defined_functions_loky": NO_GUARD,
        "test_parallel_with_interactively_defined_bound_method_loky": NO_GUARD,
        "test_auto_memmap_on_arrays_from_generator": COPIED,
        "test_memmapping_leaks": COPIED,
        "test_multiple_generator_call_separated_gc": (
            "tasks that wait for a worker are cancelled when a shared executor is shut down"
        ),
    },
    not_run={
        "test_memmapping.py": COPIED,
        "test_threadpool_limitation_in_child_loky": NO_ENV,
        "test_threadpool_limitation_in_child_context": NO_ENV,
        "test_threadpool_limitation_in_child_override": NO_ENV,
        "test_parallel_thread_limit": "needs an extension that joblib's own CI compiles",
        "test_backend_no_multiprocessing": "for a Python without multiprocessing",
    },
)
