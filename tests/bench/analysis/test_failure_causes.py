"""Causes of failing loads are decided from records: each rule, and what looks alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis
from offload.causes.failures import (
    IMPORT_STARTS,
    MEMORY_LIMIT,
    NO_PROGRESS,
    REQUESTS_FAIL,
    WORKER_ENDED,
    WORKER_FAILS,
    FailedRequests,
    import_starts,
)
from offload.causes.hangs import (
    FORK_WITH_THREADS,
    LOCK,
    OWN_LOCK,
    OWN_POOL_WAIT,
    OWN_SERVER_CALL,
    POOL_TIMEOUTS,
    SLOTS_KEPT,
    STUCK_THREADS,
    WAIT_REMEDIES,
)
from offload.causes.processes import REQUEST_FORKS
from offload.engine.application import (
    Application,
    Failing,
    Place,
    PoolUse,
    ProcessFailures,
    RunningThread,
    Stall,
    StalledPool,
    Started,
    Threads,
)
from offload.engine.record import MemoryLimit, Record, from_line, to_line
from offload.errors import LOAD, STALLED, Problem
from offload.serving.metrics import stalls
from tests.records import changed, record_of

RECORD = record_of("run", "hypercorn", "app=shop:app", 25, "run_server", "2026-01-01")
PLACE = Place("price", "shop.py", 12, 4)
POOL = StalledPool("POOL", threads=4, queued=30, place=PLACE)


def stalled(
    kind: str = STALLED, alone_s: float = 0.02, own_calls: float | None = None, **values: Any
) -> Record:
    """Return the record of a load that stalled, with the stall's own values."""
    stall = Stall(**{"pools": (POOL,), "places": (PLACE,), **values})
    failing = Failing(own_calls=own_calls, stall=stall)
    application = Application("asgi", 1, failing=failing)
    found = changed(RECORD, application=application, alone_s=alone_s)
    return replace(found, problem=Problem(kind, "no request succeeded for 10 s"))


def kinds(*records: Record) -> list[str]:
    return [cause.kind for cause in diagnosis.diagnose(records)]


def pool(**values: Any) -> dict[str, Any]:
    return {"pools": (replace(POOL, **values),)}


def test_a_pool_whose_threads_all_wait_for_its_own_queue_waits_for_itself() -> None:
    [cause] = diagnosis.diagnose([stalled(**pool(waiting=4))])
    assert (cause.kind, cause.limit, cause.facts) == (OWN_POOL_WAIT, 4, replace(POOL, waiting=4))
    assert diagnosis.clause(cause, 25) == (
        "all 4 threads of the pool POOL wait in price (shop.py:12) for calls that are still in the "
        "queue of the same pool (30 calls)"
    )
    [cause] = diagnosis.diagnose([stalled(**pool(waiting=3))])  # one may just begin another call
    assert diagnosis.clause(cause, 25).startswith("3 of 4 threads of the pool POOL wait in price")
    assert kinds(stalled(**pool(waiting=2))) == [NO_PROGRESS]
    assert kinds(stalled(**pool(waiting=4, queued=0))) == [NO_PROGRESS]


def test_threads_in_calls_that_are_much_older_than_a_request_are_stuck() -> None:
    [cause] = diagnosis.diagnose([stalled(**pool(stuck=3, stuck_s=2.0))])
    assert (cause.kind, cause.value, cause.limit) == (STUCK_THREADS, 2.0, 4)
    said = diagnosis.sentence(cause, 25)
    assert "3 of 4 threads of the pool POOL are in one call in price (shop.py:12) for 2 s" in said
    assert "limit the wait by a timeout" in said
    [cause] = diagnosis.diagnose([stalled(**pool(stuck=3, stuck_s=2.0, outlived=3))])
    said = diagnosis.sentence(cause, 25)
    assert "run on in price (shop.py:12) for 2 s or longer, also after their requests" in said
    assert "set a timeout inside that call" in said
    assert kinds(stalled(**pool(stuck=2, stuck_s=2.0))) == [NO_PROGRESS]
    slow = stalled(alone_s=1.0, **pool(stuck=4, stuck_s=2.0))  # it may just be a slow request
    assert kinds(slow) == [NO_PROGRESS]
    assert kinds(stalled(**pool(stuck=4, stuck_s=2.0, waiting=4))) == [OWN_POOL_WAIT]


@pytest.mark.parametrize(
    ("waits_for", "said", "remedy"),
    [
        (OWN_LOCK, "one waits for a lock that it holds itself; ", "use an RLock"),
        (LOCK, "most wait for a lock; ", "find what holds it"),
        ("a process that it started", "most wait for a process that", "communicate()"),
        ("a connection of urllib3's pool", "most wait for a connection of", "release_conn()"),
        ("an answer", "most wait for an answer; ", "limit the wait by a timeout"),
    ],
)
def test_what_stuck_threads_wait_for_is_named_with_its_remedy(
    waits_for: str, said: str, remedy: str
) -> None:
    [cause] = diagnosis.diagnose([stalled(**pool(stuck=4, stuck_s=2.0, waits_for=waits_for))])
    sentence = diagnosis.sentence(cause, 25)
    assert f"are in one call in price (shop.py:12) for 2 s or longer: {said}" in sentence
    assert remedy in sentence


def test_each_remedy_is_for_something_that_a_server_reports() -> None:
    reported = {what for _, _, what in stalls.WAITS_FOR} | {stalls.OWN_LOCK}
    assert set(WAIT_REMEDIES) <= reported
    assert (LOCK, OWN_LOCK) == (stalls.LOCK, stalls.OWN_LOCK)


def test_orphaned_calls_are_stuck_if_requests_wait_for_their_pool_or_have_given_up() -> None:
    orphaned = {"orphaned": 3, "stuck_s": 2.0, "queued": 0}
    works = replace(stalled(**pool(**orphaned, cancelled=1)), problem=None)
    [cause] = diagnosis.diagnose([works])
    assert (cause.kind, cause.limit) == (STUCK_THREADS, 4)
    for awaited, is_stuck in ((20, True), (10, False)):  # of 25 requests inside
        many = stalled(**pool(**orphaned | {"queued": 300}, awaited=awaited))
        own = replace(many.application, kind="wsgi", inside_s=0.5)
        many = changed(replace(many, problem=None), application=own, rate=50.0)
        assert (STUCK_THREADS in kinds(many)) == is_stuck
    works = replace(stalled(**pool(**orphaned)), problem=None)  # such as background tasks
    assert STUCK_THREADS not in kinds(works)


def test_a_quarter_of_the_threads_that_the_user_started_must_have_outlived_their_requests() -> None:
    own = {"name": "serve_line", "is_own": True, "threads": 8, "stuck": 8, "stuck_s": 2.0}
    some = replace(stalled(**pool(**own, outlived=2)), problem=None)
    [cause] = diagnosis.diagnose([some])
    assert cause.kind == STUCK_THREADS
    assert (
        "2 of 8 threads that the application started for serve_line run on in price (shop.py:12)"
        in (diagnosis.sentence(cause, 25))
    )
    assert kinds(stalled(**pool(**own, outlived=1))) == [NO_PROGRESS]  # they may do something else


def test_threads_that_use_all_cores_are_slow_and_not_stuck() -> None:
    stuck = replace(stalled(**pool(stuck=4, stuck_s=5.0)), environment={"cores": 2})
    assert kinds(changed(stuck, cores_used=1.79)) == [STUCK_THREADS]
    assert kinds(changed(stuck, cores_used=1.8)) == [NO_PROGRESS]


def test_failed_requests_alone_do_not_make_threads_stuck() -> None:
    failing = replace(stalled(**pool(stuck=0)), problem=None)
    assert kinds(failing) == []
    full = replace(stalled(**pool(stuck=4, stuck_s=2.0)), problem=None)
    assert STUCK_THREADS in kinds(changed(full, completed=60, failed={"5xx": 40}))
    assert STUCK_THREADS not in kinds(changed(full, completed=80, failed={"5xx": 20}))


def test_calls_that_outlive_successful_requests_are_stuck_if_others_wait_for_their_threads() -> (
    None
):
    one = {"threads": 32, "stuck": 17, "stuck_s": 1.1, "queued": 59, "waiting": 0, "orphaned": 17}

    def working(
        inside: float = 64.0, executors: tuple[PoolUse, ...] = (), **more: int
    ) -> list[str]:
        failed = stalled(pools=(StalledPool(**{**POOL.__dict__, **one, **more}),))
        own = replace(failed.application, inside_s=0.36, threads=Threads(pools=executors))
        fine = changed(replace(failed, problem=None, application=own), completed=265, failed={})
        return kinds(changed(fine, rate=inside / 0.36, alone_s=0.05, cores_used=0.1, elapsed_s=2.0))

    assert STUCK_THREADS in working()
    assert STUCK_THREADS not in working(orphaned=7)  # of 32
    assert STUCK_THREADS not in working(orphaned=0, outlived=17)  # these may be meant to go on
    assert STUCK_THREADS not in working(queued=0)  # a thread is free
    for waiting, is_stuck in ((30.0, True), (0.5, False), (90.0, False)):
        executor = PoolUse("ThreadPoolExecutor", "shop.calls", 32, 0.6, waiting, 64.0)
        assert (STUCK_THREADS in working(queued=0, executors=(executor,))) == is_stuck
    # Calls that no request waits for, unless most users have one inside.
    assert STUCK_THREADS not in working(inside=18.0, queued=81)
    assert STUCK_THREADS in working(inside=19.0, queued=81)


def test_a_fork_beside_threads_explains_threads_that_wait_for_the_child() -> None:
    stuck = changed(
        replace(stalled(**pool(stuck=4, stuck_s=2.0)), problem=None),
        completed=60,
        failed={"5xx": 40},
    )
    own = replace(stuck.application, threads=Threads(forks=60))
    assert kinds(replace(stuck, application=own)) == [REQUEST_FORKS]


def test_all_requests_of_the_only_process_fail_since_a_moment() -> None:
    def failing(failed: int, since_s: float | None, last: int | None = None) -> Record:
        one = ProcessFailures(1, 100, failed, since_s, failed if last is None else last)
        own = Application("asgi", 1, failing=Failing(processes=(one,)))
        return changed(RECORD, application=own, completed=60, failed={"5xx": 40})

    [cause] = diagnosis.diagnose([failing(40, 1.8)])
    assert cause.kind == WORKER_FAILS
    assert diagnosis.clause(cause, 25).startswith("all requests fail from 1.8 s of the load on")
    assert kinds(failing(40, None)) == [REQUESTS_FAIL]  # now and again
    assert kinds(failing(100, 0.0)) == [REQUESTS_FAIL]  # from the start
    assert kinds(failing(95, 0.01)) == [REQUESTS_FAIL]  # hardly any worked before
    [early] = diagnosis.diagnose([failing(40, 0.01)])
    assert diagnosis.clause(early, 25).startswith("all requests fail since early in the load, and")
    assert kinds(failing(40, 1.8, last=2)) == [REQUESTS_FAIL]  # by chance the last ones
    assert kinds(failing(40, 1.8, last=15)) == [REQUESTS_FAIL]


ERROR = "RuntimeError: the handler is closed (shop.py:59)"
SINCE = ProcessFailures(1, 100, 20, None, None, 40, 0.4, 2, 0.01, 0.03)


def fails_since(one: ProcessFailures, error: str | None = None, **more: Any) -> Record:
    own = Application("asgi", 1, failing=Failing(processes=(one,), error=error, **more))
    failed = {"5xx": one.failed}
    return changed(RECORD, application=own, completed=one.requests - one.failed, failed=failed)


def test_some_requests_that_fail_since_a_moment_are_named_with_their_share_and_error() -> None:
    [cause] = diagnosis.diagnose([fails_since(SINCE, ERROR)])
    assert cause.kind == WORKER_FAILS
    assert diagnosis.clause(cause, 25) == (
        "40 % of the requests fail since a moment of the load, and hardly any before: " + ERROR
    )
    [every] = diagnosis.diagnose(
        [fails_since(replace(SINCE, failed=40, failing_s=1.8, failing=40), ERROR)]
    )
    assert diagnosis.clause(every, 25).endswith("and before most did not: " + ERROR)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"failing_share": 0.2}, WORKER_FAILS),
        ({"failing_share": 0.1}, REQUESTS_FAIL),  # 40 successes in a row: 1.5 %
        ({"worked": 9, "failing_share": 0.9}, REQUESTS_FAIL),
        ({"worked": None}, REQUESTS_FAIL),
        ({"failed": 9}, REQUESTS_FAIL),
        ({"failed_s": 0.032}, WORKER_FAILS),
        ({"failed_s": 0.034}, REQUESTS_FAIL),  # timeouts
        ({"succeeded_s": None}, REQUESTS_FAIL),
        ({"recovered": 13}, WORKER_FAILS),
        ({"recovered": 14}, REQUESTS_FAIL),  # it is over
        ({"failing_share": 1.0, "recovered": 0}, WORKER_FAILS),
        ({"failed": 60}, WORKER_FAILS),
    ],
)
def test_some_requests_fail_since_a_moment(values: dict[str, Any], kind: str) -> None:
    assert kinds(fails_since(replace(SINCE, **values))) == [kind]


def test_a_known_error_has_a_remedy_of_its_own() -> None:
    since = fails_since(replace(SINCE, failed=60))
    failing = replace(
        since.application.failing, error="RuntimeError: <Lock> is bound to a different event loop"
    )
    [cause] = diagnosis.diagnose(
        [replace(since, application=replace(since.application, failing=failing))]
    )
    assert cause.kind == WORKER_FAILS
    assert diagnosis.remedy(cause).endswith("create one for each loop")


def test_requests_that_fail_in_a_window_after_one_without_failures_fail_since_a_moment() -> None:
    later = ProcessFailures(1, 100, 10)
    [since] = diagnosis.diagnose([fails_since(later, worked_before=True)])
    assert diagnosis.clause(since, 25) == (
        "10 % of the requests fail since a moment of the load, and hardly any before"
    )
    assert kinds(fails_since(replace(later, failed=9), worked_before=True)) == [REQUESTS_FAIL]


def test_a_reached_limit_of_the_memory_explains_requests_that_begin_to_fail() -> None:
    limit = MemoryLimit(by="ulimit -v", limit_mib=900.0, used_mib=890.0)
    record = fails_since(SINCE, "MemoryError (shop.py:7)")
    used = replace(record.resources, memory_limit=limit)
    assert kinds(replace(record, resources=used)) == [MEMORY_LIMIT]


def test_an_executor_whose_queue_takes_longer_than_a_timeout_is_named() -> None:
    def failing(
        full: float = 1.0,
        waiting: float = 54.0,
        s: float = 0.5,
        kind: str = "ThreadPoolExecutor",
        limit: int = 24,
        **more: Any,
    ) -> list[str]:
        use = PoolUse(kind, "grant.POOL", limit, full, waiting, 64.0)
        stall = Stall(pools=(StalledPool("register", 24, place=PLACE),))
        own = Application(
            "asgi", failing=Failing(stall=stall), threads=Threads(pools=(use,)), inside_s=s
        )
        values = {"completed": 40, "failed": {"5xx": 1160}, **more}
        causes = diagnosis.diagnose([changed(RECORD, application=own, alone_s=0.3, **values)])
        return [diagnosis.clause(each, 64) for each in causes if each.kind == POOL_TIMEOUTS]

    assert failing() == [
        "requests fail while calls wait: all 24 threads of grant.POOL (ThreadPoolExecutor) are in "
        "use for 100 % of the time in price (shop.py:12), and 54 calls wait for one, also such "
        "whose request has ended"
    ]
    [pool] = failing(kind="ProcessPoolExecutor", limit=2)
    assert "all 2 processes of grant.POOL (ProcessPoolExecutor) are in use" in pool
    assert "the only one of grant.POOL (ThreadPoolExecutor) is in use" in failing(limit=1)[0]
    assert failing(0.9, 24.0, 0.45)
    assert not failing(full=0.89)
    assert not failing(waiting=23.0)
    assert not failing(s=0.44)  # they fail at once, by something else
    assert not failing(completed=4000)


def test_connections_of_the_server_to_itself_are_calls_of_itself() -> None:
    [cause] = diagnosis.diagnose([stalled(own_calls=8)])
    assert cause.kind == OWN_SERVER_CALL
    assert "calls its own server in price (shop.py:12)" in diagnosis.clause(cause, 25)


def test_without_a_known_cause_the_line_of_most_threads_is_named() -> None:
    [cause] = diagnosis.diagnose([stalled()])
    assert diagnosis.clause(cause, 25) == (
        "requests failed or did not end while 4 threads or tasks were in price (shop.py:12)"
    )
    assert kinds(stalled(places=())) == []
    assert kinds(stalled(kind=LOAD)) == []  # the tool failed, not the application


def test_without_a_known_cause_the_line_is_named_also_if_requests_give_up_late() -> None:
    failed = replace(changed(stalled(), failed={"5xx": 160}, completed=128), problem=None)

    def gives_up(failed_s: float | None, error: str | None = None) -> list[str]:
        one = ProcessFailures(1, 288, 160, failed_s=failed_s, succeeded_s=0.02)
        failing = replace(failed.application.failing, error=error, processes=(one,))
        return kinds(replace(failed, application=replace(failed.application, failing=failing)))

    assert NO_PROGRESS in gives_up(2.0)
    assert NO_PROGRESS not in gives_up(0.025)  # they fail at once: that is not where they wait
    assert NO_PROGRESS not in gives_up(None)
    assert NO_PROGRESS not in gives_up(2.0, "KeyError: 7 (shop.py:3)")


def test_requests_that_still_fail_after_the_load_fail_since_a_moment() -> None:
    one = ProcessFailures(1, 1551, 589, failing_share=0.44, failed_s=0.003, succeeded_s=0.006)
    own = Application("asgi", 1, failing=Failing(processes=(one,)))
    record = changed(RECORD, application=own, failed={"5xx": 822}, completed=1298)
    after = replace(record, baseline=replace(record.baseline, fails_after=True))
    assert kinds(record) == [REQUESTS_FAIL]
    [cause] = diagnosis.diagnose([after])
    assert cause.kind == WORKER_FAILS
    assert "44 % of the requests fail since a moment" in diagnosis.clause(cause, 64)


def test_own_threads_that_call_a_library_are_stuck_in_it_if_requests_fail() -> None:
    clerks = replace(POOL, threads=16, queued=0, stuck=9, stuck_s=1.0, outlived=9, is_own=True)
    clerks = replace(clerks, name="clerk", in_library=True, waits_for="an answer")
    works = replace(changed(stalled(pools=(clerks,)), completed=675), problem=None)
    assert STUCK_THREADS not in kinds(works)  # they may wait there for work
    assert kinds(changed(works, failed={"5xx": 75})) == [STUCK_THREADS]


def waiting_for(waiting: float, **values: Any) -> Record:
    """Return the record of a load whose requests wait for a semaphore of 4, which is taken."""
    found = PoolUse("asyncio.Semaphore", "shop.GATE", 4, 1.0, waiting, 25.0)
    own = replace(stalled().application, threads=Threads(pools=(replace(found, **values),)))
    return replace(stalled(), application=own)


def test_slots_that_no_request_holds_although_all_wait_for_one_are_kept() -> None:
    [cause] = diagnosis.diagnose([waiting_for(25.0)])
    assert (cause.kind, cause.limit) == (SLOTS_KEPT, 4)
    assert diagnosis.clause(cause, 25) == (
        "all 4 of shop.GATE (asyncio.Semaphore) are taken for 100 % of the time, while most "
        "requests inside wait for one in price (shop.py:12): requests do not give back what they "
        "took, or hold one while they wait for another"
    )
    assert kinds(waiting_for(21.0)) == [NO_PROGRESS]  # four requests hold them
    assert kinds(waiting_for(25.0, idle_waiting=20.0)) == [NO_PROGRESS]  # other tasks wait
    assert kinds(waiting_for(25.0, kind="ThreadPoolExecutor")) == [NO_PROGRESS]
    slow = {"completed": 60, "elapsed_s": 10.0, "rate": 6.0, "alone_s": 0.1}
    works = changed(replace(waiting_for(24.0), problem=None), **slow)
    assert kinds(works)[:1] == [SLOTS_KEPT]
    assert SLOTS_KEPT not in kinds(changed(works, rate=12.0))  # a part is not held for long
    for inside, is_kept in ((25.5, True), (25.9, False)):  # they were taken up in the window
        late = changed(replace(waiting_for(24.0, full=0.6, inside=inside), problem=None), **slow)
        assert (SLOTS_KEPT in kinds(late)) == is_kept
    several = changed(replace(waiting_for(60.0), problem=None), **slow)
    assert SLOTS_KEPT not in kinds(several)  # each request takes several at once


def test_parts_that_are_in_use_by_no_request_inside_are_kept() -> None:
    httpx = {"kind": "pool of httpx", "name": "shop.client", "limit": 10, "inside": 60.0}
    fast = {"completed": 3600, "elapsed_s": 10.0, "rate": 360.0, "alone_s": 0.03}
    works = changed(replace(waiting_for(50.0, left=10, **httpx), problem=None), **fast)
    [cause, *_] = diagnosis.diagnose([works])
    assert (cause.kind, cause.limit) == (SLOTS_KEPT, 10)
    said = diagnosis.sentence(cause, 64)
    assert "shop.client (pool of httpx) are taken for 100 % of the time, 10 of them by no" in said
    assert "use the timeouts of httpx instead" in said
    for other in ({"left": 4}, {"left": None}, {"left": 10, "kind": "ThreadPoolExecutor"}):
        some = replace(waiting_for(50.0, **httpx | other), problem=None)
        assert SLOTS_KEPT not in kinds(changed(some, **fast))
    for idle, is_pool in ((9.0, True), (0.0, False)):  # a queue of calls is empty without requests
        queue = httpx | {"kind": "queue.Queue", "left": 10, "idle_queued": idle}
        some = changed(replace(waiting_for(50.0, **queue), problem=None), **fast)
        assert (SLOTS_KEPT in kinds(some)) == is_pool


def test_threads_that_wait_for_slots_that_are_kept_are_not_stuck_by_themselves() -> None:
    taken = PoolUse("queue.Queue", "shop.POOL", 24, 1.0, 60.0, 63.0)
    stuck = replace(POOL, threads=64, stuck=64, stuck_s=3.0, queued=0)
    failing = stalled(pools=(stuck,))
    assert kinds(failing) == [STUCK_THREADS]

    def with_pool(used: PoolUse) -> Record:
        own = replace(failing.application, threads=Threads(pools=(used,)))
        return replace(failing, application=own)

    assert kinds(with_pool(taken)) == [SLOTS_KEPT]
    assert kinds(with_pool(replace(taken, limit=4, waiting=30.0, inside=31.0))) == [STUCK_THREADS]


def processes(*failed: int, requests: int = 100) -> Record:
    found = [ProcessFailures(pid, requests, n, 1.5) for pid, n in enumerate(failed, 1)]
    failing = Failing(processes=tuple(found))
    return changed(RECORD, application=Application("asgi", len(found), failing=failing))


def test_one_process_whose_requests_fail_is_told_from_failures_everywhere() -> None:
    [cause] = diagnosis.diagnose([processes(0, 90, 2, 1)])
    worst = ProcessFailures(2, 100, 90, 1.5)
    assert (cause.kind, cause.value, cause.limit, cause.facts) == (WORKER_FAILS, 0.9, 4, worst)
    said = diagnosis.clause(cause, 25)
    assert "one of 4 processes fails: 90 % of its requests, all of them from 1.5 s on" in said
    assert kinds(processes(50, 55)) == []  # every second request, everywhere
    assert kinds(processes(0, 40)) == []
    assert kinds(processes(90)) == []
    assert kinds(processes(0, 9, requests=9)) == []  # too few


def test_processes_that_ended_are_named() -> None:
    for count, expected in ((1, [WORKER_ENDED]), (0, [])):
        own = Application("wsgi", 2, failing=Failing(ended=count))
        assert kinds(changed(RECORD, application=own)) == expected


def test_an_import_that_starts_something_is_a_cause_by_its_line() -> None:
    server = Started("server", 1, "<module>", "shop.py", 3, (8000,))
    pool = Started("process", 4, "start", "shop.py", 9)
    causes = import_starts([server, pool])
    assert [cause.kind for cause in causes] == [IMPORT_STARTS] * 2
    assert [diagnosis.clause(cause, 25) for cause in causes] == [
        "the import of the application starts a server on port 8000 at shop.py:3, in each "
        "serving process",
        "the import of the application starts 4 processes in start (shop.py:9), in each serving "
        "process",
    ]


def test_a_stall_is_read_back_from_a_file() -> None:
    record = stalled(own_calls=1)
    assert from_line(to_line(record)).application == record.application


def test_threads_that_a_fork_lost_explain_a_pool_that_stalls() -> None:
    stuck = stalled(**pool(stuck=4, stuck_s=5.0))
    assert kinds(stuck) == [STUCK_THREADS]
    own = replace(
        stuck.application, threads=Threads(lost=(RunningThread("refresh", "shop.py", 12),))
    )
    [cause] = diagnosis.diagnose([replace(stuck, application=own)])
    assert cause.kind == FORK_WITH_THREADS
    assert diagnosis.is_failure(cause)


def test_one_call_that_outlives_all_requests_of_a_load_with_failures_is_enough() -> None:
    works = {"completed": 2000, "failed": {"5xx": 9}}
    for values, found in (
        ({"stuck": 1, "stuck_s": 1.2, "outlived": 1}, [STUCK_THREADS]),
        ({"stuck": 1, "stuck_s": 1.2}, []),  # it was there before, or a request waits for it
        ({"stuck": 4, "stuck_s": 90.0}, []),  # all threads, such as consumers that always run
        ({"stuck": 1, "stuck_s": 0.05, "outlived": 1}, []),  # it is not older than a request
    ):
        own = changed(replace(stalled(**pool(**values)), problem=None), **works)
        assert [kind for kind in kinds(own) if kind == STUCK_THREADS] == found, values
    [cause] = (c for c in diagnosis.diagnose([stalled(**pool(stuck=1, stuck_s=5.0, outlived=1))]))
    assert diagnosis.clause(cause, 16).startswith(
        "1 of 4 threads of the pool POOL runs on in price"
    )


def test_only_the_calls_that_outlive_their_requests_are_counted() -> None:
    busy = stalled(**pool(stuck=4, stuck_s=9.0, outlived=1))  # three threads consume a queue
    own = changed(replace(busy, problem=None), completed=2000, failed={"5xx": 9})
    [cause] = (each for each in diagnosis.diagnose([own]) if each.kind == STUCK_THREADS)
    assert "1 of 4 threads of the pool POOL runs on" in diagnosis.clause(cause, 25)


def test_calls_to_its_own_server_are_a_cause_if_requests_fail_or_many_wait_for_them() -> None:
    own = replace(stalled(own_calls=3, pools=()), problem=None)
    busy = changed(own, rate=1000.0, inside_s=0.04)  # 40 requests at once
    assert OWN_SERVER_CALL not in kinds(changed(busy, completed=900, failed={"5xx": 100}))
    assert OWN_SERVER_CALL in kinds(changed(busy, completed=100, failed={"5xx": 900}))
    [cause] = diagnosis.diagnose([changed(busy, completed=900, inside_s=0.02)])
    assert (cause.kind, cause.value, cause.threshold) == (OWN_SERVER_CALL, 3, 2.0)
    assert "on average it has 3 connections to itself" in diagnosis.clause(cause, 25)


def test_a_response_of_500_under_load_is_named_with_the_last_error() -> None:
    def record(failed: int, error: str | None = None) -> Record:
        own = Application("wsgi", failing=Failing(error=error))
        return changed(RECORD, application=own, completed=288, failed={"5xx": failed, "4xx": 0})

    error = "KeyError: 'price' (shop.py:38)"
    [cause] = diagnosis.diagnose([record(2, error), record(0)])
    assert (cause.kind, cause.facts) == (REQUESTS_FAIL, FailedRequests(2, 578, error))
    assert diagnosis.sentence(cause, 25) == (
        f"2 of 578 requests fail under load (5xx): {error}; a single one works: look at what they "
        "share, such as a dictionary or a connection."
    )
    assert REQUESTS_FAIL not in kinds(record(0, error))
    [cause] = diagnosis.diagnose([record(2, "OperationalError: database is locked (shop.py:38)")])
    assert "BEGIN IMMEDIATE" in diagnosis.remedy(cause)


@pytest.mark.parametrize(("refused", "is_named"), [(11, True), (10, False)])
def test_an_application_that_refuses_requests_by_429_limits_the_rate_itself(
    refused: int, is_named: bool
) -> None:
    one = ProcessFailures(7, requests=200, failed=0, refused=refused)
    failing = Failing(processes=(one,))
    known = changed(RECORD, application=Application("asgi", 1, failing=failing), rate=50.4)
    found = diagnosis.diagnose([replace(known, problem=Problem(LOAD, "requests failed"))])
    assert bool(found) is is_named
    if is_named:
        said = diagnosis.sentence(found[0], 64)
        assert "refuses 6 % of the requests by 429 (Too Many Requests): about 50/s succeed" in said
