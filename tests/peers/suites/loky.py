"""loky's tests of its executors, run on ours.

Of the variants by start method only `spawn` runs: our executor ignores the context. Files that test
only loky's own parts do not run: its resource tracker, backend, synchronization, pickling, futures.
"""

from __future__ import annotations

from tests.peers.running import Peer
from tests.peers.sources import Sdist

ALONE = "what does not pickle fails alone: the task raises what unpickling raised"
NO_RESIZE = "an executor is not resized: another one takes its place"
NO_GUARD = "the script has no `if __name__ == '__main__'`, without which no worker may start"
NO_IDLE_TIMEOUT = "idle workers are kept: the pool has no timeout for them"
WINDOWS = "for Windows only"
PHYSICAL = "the pool does not distinguish physical from logical cores"
GOES_ON = "a worker that dies fails only the task that it ran; the pool goes on"
TASK_EXIT = "sys.exit() in a task raises TaskExit: SystemExit would end the caller"


def _both(case: str, reason: str) -> dict[str, str]:
    """Return entries for a case of two tests: submitted by the main thread, by a callback."""
    return {f"{test}[{case}]": reason for test in CRASHES}


CRASHES = ("test_crashes", "test_in_callback_submit_with_crash")

BETTER = {
    **_both("id-args2-BrokenProcessPool-SystemExit", f"{ALONE}; {TASK_EXIT}"),
    **_both("id-args4-BrokenProcessPool-UnpicklingError", ALONE),
    **_both("exit-args7-SystemExit-None", TASK_EXIT),
    **_both("id-args0-PicklingError-None", TASK_EXIT),
    **_both("return_instance-args14-BrokenProcessPool-SystemExit", TASK_EXIT),
    "test_shutdown_with_sys_exit_at_pickle": TASK_EXIT,
    **_both("return_instance-args11-SystemExit-None", TASK_EXIT),
    **_both("return_instance-args15-BrokenProcessPool-UnpicklingError", ALONE),
    "test_informative_error_when_fail_at_unpickle": ALONE,
    "test_invalid_context": "any mp_context is taken: workers never fork from the application",
    "test_killed_child": GOES_ON,
    "test_exited_child": GOES_ON,
    "test_processes_crash_handling_after_executor_gc": GOES_ON,
}

LEFT_OUT = {
    "test_call_item_gc_crash_or_exit": (
        "a destructor of an argument ends the worker: it runs before the result is sent"
    ),
    "test_worker_timeout": NO_IDLE_TIMEOUT,
    "test_worker_timeout_mock": f"{NO_IDLE_TIMEOUT}; replaces the private _result_queue",
    "test_worker_timeout_with_slowly_pickling_objects": NO_IDLE_TIMEOUT,
    "test_deadlock_kill": NO_RESIZE,
    "test_kill_after_resize_call": NO_RESIZE,
    "test_reusable_executor_resize": NO_RESIZE,
    "test_invalid_process_number": f"{NO_RESIZE}; calls the private _resize",
    "test_no_crash_max_workers_on_windows": NO_RESIZE,
    "test_interactively_defined_executor_no_main": NO_GUARD,
    "test_interactively_defined_nested_functions": NO_GUARD,
    "test_interactively_defined_recursive_functions": NO_GUARD,
    "test_no_deadlock_on_nested_reusable_exector": NO_GUARD,
    "test_faulthandler_enabled": (
        "workers cannot import a function of `python -c`: the pool pickles functions by name"
    ),
    "test_reusable_initializer": "map passes no keyword arguments to the function",
    "test_serialization": "the pool has no job_reducers and no result_reducers",
    "test_max_depth": "the pool does not limit how deep pools are nested",
    "test_memory_leak_protection": "the pool does not watch the memory of its workers",
    "test_manager_thread_crash_breaks_executor": (
        "replaces a private method of the manager thread, wait_result_broken_or_wakeup"
    ),
    "test_feeder_error_hook_crash_breaks_executor": (
        "replaces the private _call_queue.running_work_items"
    ),
}

NOT_RUN = {
    "test_killed_child_with_cancelled_work_items": (
        "polls the private _running_work_items, and leaves 60 sleeps of 30 s when that fails"
    ),
    "test_no_failure_on_large_data_send": "an argument of 2.2 GB needs more memory than CI has",
    "test_child_env_executor": "for the context of loky only, which has an env for its workers",
    "test_viztracer_profiler": "needs viztracer, which loky starts in its workers",
    "test_viztracer_profiler_with_custom_init": "needs viztracer, which loky starts in its workers",
    "test_exception_cause_with_tblib": "needs tblib, which the project does not install",
    "test_reused_flag": "uses the private _ReusablePoolExecutor, which is a pool of loky's own",
    "test_thread_local": "compares what the get_reusable_executor of the adapter returns",
    "test_reusable_executor_submit_with_concurrent_env_changes": (
        "the pool has no env; counts processes while ten dropped executors still end (1 s allowed)"
    ),
    "test_version": "tests the module loky itself",
    "test_cpu_count": PHYSICAL,
    "test_cpu_count_os_sched_getaffinity": PHYSICAL,
    "test_cpu_count_os_sched_getaffinity_smt_siblings": PHYSICAL,
    "test_cpu_count_only_physical_cores_smt_siblings_affinity": PHYSICAL,
    "test_count_physical_cores_linux_multi_socket": PHYSICAL,
    "test_only_physical_cores_error": PHYSICAL,
    "test_only_physical_cores_enforced_non_linux": PHYSICAL,
    "test_windows_max_cpu_count": WINDOWS,
    "test_windows_physical_cores": WINDOWS,
    "test_windows_physical_cores_falls_back_to_powershell": WINDOWS,
    "test_windows_physical_cores_powershell_sums_sockets_mine": WINDOWS,
    "test_cpu_count_cgroup_limit": "needs docker, and installs loky itself in a container",
    "test_cpu_count_cgroup_invalid_content": "calls the private _cpu_count_cgroup of loky",
    "test_no_deprecation_warning_is_raised_on_fork": "needs _testcapi, which pyenv does not build",
}

PEER = Peer(
    "loky",
    sdist=Sdist(
        "loky", "3.7.0", "80928106fe18b5300c6f1b3a871d71e68a81dc9b2fe5c8ee4afe93bb9ba6424d"
    ),
    files=(
        "tests/test_process_executor_spawn.py",
        "tests/test_reusable_executor.py",
        "tests/test_worker_timeout.py",
        "tests/test_loky_module.py",
    ),
    better=BETTER,
    left_out=LEFT_OUT,
    not_run=NOT_RUN,
)
