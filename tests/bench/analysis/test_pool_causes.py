"""Causes in pools are decided from figures: each rule, and similar causes that it must reject."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis, pools
from offload.causes.execution import (
    CPU_SATURATED,
    GIL_SATURATED,
    LOOP_BLOCKED,
    THREAD_LIMIT,
    Blocks,
)
from offload.causes.gains import Gain
from offload.causes.pools import BACKLOG_GROWS, DEFAULT_EXECUTOR, PAUSES, WAITS_ELSEWHERE
from offload.causes.rules import Cause
from offload.engine.application import (
    Application,
    HotLine,
    Pauses,
    PoolUse,
    Route,
    Steps,
    ThreadLimit,
    Threads,
    Who,
)
from offload.engine.hot_lines import FILE_LOCK, LOG_LOCK, PROPERTY_LOCK
from offload.engine.record import Record, Tasks, from_line, to_line
from tests.records import changed, record_of

RECORD = record_of("run", "uvicorn_httptools", "app=shop:app", 25, "run_server", "2026-01-01")
FULL = PoolUse("default executor", None, 6, 0.99, 18.0, 25.0)
# 6 threads of 100 ms serve 60 requests/s, so that 25 users wait for 0.42 s.
NO_STEPS = Steps()
VALUES = {
    "cpu_ms_per_request": 1.0,
    "completed": 600,
    "elapsed_s": 10.0,
    "cores_used": 0.06,
    "rate": 60.0,
    "alone_s": 0.1,
    "gil_utilisation": 0.1,
}


def record(
    *found: PoolUse, steps: Steps = NO_STEPS, handovers: int | None = 0, **values: Any
) -> Record:
    inside_s = values.pop("inside_s", 0.42)
    routes = (Route("GET /a", 600, inside_s, 0.0, values.pop("run_s", 0.0), 0.0, steps),)
    threads = Threads(pools=found, handovers=handovers)
    own = Application("asgi", inside_s=inside_s, routes=routes, threads=threads)
    made = replace(changed(RECORD, **VALUES | values), application=own)
    return replace(made, environment={"cores": 2})


def causes(*found: PoolUse, **values: Any) -> list[Cause]:
    return diagnosis.diagnose([record(*found, **values)])


def kinds(*found: PoolUse, **values: Any) -> list[str]:
    return [cause.kind for cause in causes(*found, **values)]


def test_a_record_keeps_pools_and_steps_and_older_ones_have_none() -> None:
    one = record(FULL, steps=Steps(4.0))
    assert from_line(to_line(one)).application == one.application
    old = to_line(one).replace('"pools"', '"unknown"').replace('"steps"', '"unknown"')
    assert from_line(old).application.threads.pools == ()
    assert from_line(old).application.routes[0].steps == Steps()


def test_the_default_executor_is_named_and_explains_the_wait() -> None:
    [cause] = causes(FULL)
    assert (cause.kind, cause.limit, cause.value) == (DEFAULT_EXECUTOR, 6, 0.99)
    said = diagnosis.sentence(cause, 25)
    assert said.startswith("All 6 threads of asyncio's default executor")
    assert "18 calls wait for one" in said and "getaddrinfo" not in said
    shared = diagnosis.sentence(causes(replace(FULL, shares_dns=True))[0], 25)
    assert "DNS (getaddrinfo) waits in the same queue" in shared
    dns = diagnosis.sentence(causes(replace(FULL, dns=0.9))[0], 25)
    assert "they resolve host names" in dns and "cache the addresses" in dns


def test_a_default_executor_full_of_others_calls_is_measured_with_more_threads() -> None:
    values = {"alone_s": 0.01, "inside_s": 0.4}  # in the executor a call takes 0.1 s
    full = record(replace(FULL, full=1.0), **values)
    [unknown] = diagnosis.diagnose([full])
    assert unknown.kind == WAITS_ELSEWHERE
    assert diagnosis.clause(unknown, 25).endswith(
        "6 threads of asyncio's default executor are in use"
    )
    own = replace(FULL, kind="ThreadPoolExecutor", name="shop.CALLS", full=1.0)
    [timed_out] = causes(own, **values)  # such as calls that go on after a timeout
    assert diagnosis.clause(timed_out, 25).endswith(
        ", while all 6 threads of shop.CALLS (a ThreadPoolExecutor) are in use"
    )
    switch = diagnosis.switches([full])[DEFAULT_EXECUTOR]
    found = diagnosis.diagnose([full], {DEFAULT_EXECUTOR: Gain(switch.text, 2.0, 1.8, 2.2)})
    assert [cause.kind for cause in found] == [DEFAULT_EXECUTOR]
    assert DEFAULT_EXECUTOR not in diagnosis.switches(
        [record(FULL, gil_utilisation=0.99, **values)]
    )
    rare = record(replace(FULL, full=0.8), **values)
    assert DEFAULT_EXECUTOR not in diagnosis.switches([rare])


def of_request(thread: PoolUse, **values: Any) -> Record:
    made = record(**values)
    threads = replace(made.application.threads, of_request=thread)
    return replace(made, application=replace(made.application, threads=threads))


def test_calls_of_a_request_that_wait_for_its_only_thread_are_named() -> None:
    waits = PoolUse(pools.THREAD_OF_REQUEST, None, 25, 0.98, 75.0, 25.0)
    values = {"alone_s": 0.25, "inside_s": 0.25}  # each is as slow alone
    [cause] = diagnosis.diagnose([of_request(waits, **values)])
    said = diagnosis.sentence(cause, 25)
    assert (
        "sync_to_async runs those of one request of Django in one thread, and on average 3" in said
    )
    assert "thread_sensitive=False" in said
    for other in (replace(waits, waiting=20.0), replace(waits, full=0.4)):
        found = diagnosis.diagnose([of_request(other, **values)])
        assert WAITS_ELSEWHERE not in [each.kind for each in found]


POOL = PoolUse("ThreadPoolExecutor", "shop.PRINTERS", 6, 0.99, 18.0, 25.0)


def test_a_pool_is_named_with_its_variable_and_number() -> None:
    [cause] = causes(POOL)
    assert (cause.kind, cause.limit, cause.facts) == (WAITS_ELSEWHERE, 6, POOL)
    said = diagnosis.clause(cause, 25)
    assert said.startswith("requests wait for shop.PRINTERS, a ThreadPoolExecutor of 6 threads: ")
    unnamed = replace(POOL, kind="asyncio.Semaphore", name=None)
    assert "wait for an asyncio.Semaphore of 6: " in diagnosis.clause(causes(unnamed)[0], 25)
    lock = PoolUse("threading.Lock", "shop.LOCK", 1, 0.97, None, 25.0)
    [cause] = causes(lock, rate=10.0)
    assert "a threading.Lock: it is held for 97 % of the time; hold it" in diagnosis.sentence(
        cause, 25
    )


def test_without_a_known_pool_the_number_is_that_of_littles_law() -> None:
    [cause] = causes()
    assert (cause.kind, cause.limit, cause.facts) == (WAITS_ELSEWHERE, 6, None)
    assert "a pool of about 6 connections" in diagnosis.clause(cause, 25)


@pytest.mark.parametrize(
    "pool",
    [
        replace(POOL, full=0.4),
        replace(POOL, waiting=1.0),
        replace(POOL, grows=True),  # calls that no request waits for
        PoolUse("asyncio.Queue", "shop.JOBS", 9, 1.0, 3.0, 25.0),  # consumers wait for jobs
        PoolUse("threading.Lock", "shop.LOCK", 1, 0.8, None, 25.0),
    ],
)
def test_a_pool_that_looks_like_the_limit_is_not_named(pool: PoolUse) -> None:
    [cause] = causes(pool)
    assert (cause.kind, cause.facts) == (WAITS_ELSEWHERE, None)


def test_a_pool_in_which_calls_take_four_times_as_long_as_alone_is_full_besides() -> None:
    pool = replace(POOL, limit=25)
    [cause] = causes(pool)
    assert (cause.kind, cause.facts) == (WAITS_ELSEWHERE, pools.AlsoFull(pool))


@pytest.mark.parametrize(("waiting", "is_named"), [(2.8, True), (2.7, False)])
def test_a_pool_is_named_only_if_a_larger_one_may_carry_a_quarter_more(
    waiting: float, is_named: bool
) -> None:
    pool = replace(POOL, limit=11, waiting=waiting)
    assert [cause.facts for cause in causes(pool)] == [pool if is_named else None]


def test_calls_that_come_faster_than_they_end_and_nobody_waits_for_are_named() -> None:
    pool = replace(POOL, grows=True, waiting=50.0)
    [cause] = causes(pool)
    assert (cause.kind, cause.value, cause.facts) == (BACKLOG_GROWS, 50.0, pool)
    assert diagnosis.clause(cause, 25) == (
        "calls come faster than they end in shop.PRINTERS, a ThreadPoolExecutor of 6 threads: 50 "
        "wait on average, and ever more, while 25 requests are inside"
    )
    own = replace(pool, kind="default executor", name=None)
    assert "in asyncio's default executor of 6 threads" in diagnosis.clause(causes(own)[0], 25)
    queue = PoolUse(
        "queue.Queue", "shop.JOBS", None, 0.0, 0.0, 25.0, True, idle_waiting=1.0, queued=900.0
    )
    assert "in shop.JOBS, a queue.Queue: 900 wait" in diagnosis.clause(causes(queue)[0], 25)
    few = replace(pool, waiting=49.0)  # a request may have made two calls
    shrinks = replace(pool, waiting=500.0, grows=False)
    semaphore = replace(pool, kind="asyncio.Semaphore")
    batches = replace(queue, idle_waiting=0.0)  # its consumer reads them all every few seconds
    for other in (few, shrinks, semaphore, replace(queue, queued=49.0), batches):
        assert BACKLOG_GROWS not in kinds(other)
    assert kinds(replace(POOL, name="shop.LINES"), pool) == [WAITS_ELSEWHERE, BACKLOG_GROWS]


def test_tasks_that_are_started_faster_than_they_end_are_named_with_their_line() -> None:
    tasks = PoolUse("asyncio.Task", None, None, 0.0, 0.0, 0.0, True, queued=100.0)
    line = HotLine("learn", "jobs.py", 53, 0.9, "awaits")
    busy = {"cores_used": 0.95, "gil_utilisation": 0.97}
    own = replace(record(tasks, **busy), who=Who((replace(line, doing="waits"), line)))
    cause = diagnosis.diagnose([own])[0]
    assert (cause.kind, cause.value, cause.line) == (BACKLOG_GROWS, 100.0, line)
    seldom = replace(own, who=Who((replace(line, share=0.5),)))
    assert diagnosis.diagnose([seldom])[0].line is None
    assert diagnosis.clause(cause, 25) == (
        "asyncio tasks are started faster than they end, most of them at learn (jobs.py:53): 100 "
        "are unfinished on average, and ever more, with 25 users"
    )
    assert "a queue of limited size" in diagnosis.sentence(cause, 25)
    several = replace(tasks, queued=99.0)  # of each request
    assert BACKLOG_GROWS not in kinds(several, **busy)
    assert BACKLOG_GROWS not in kinds(replace(tasks, grows=False), **busy)
    assert kinds(POOL, tasks) == [WAITS_ELSEWHERE]  # the loop is idle: they delay nobody


def test_a_pool_that_calls_of_others_keep_full_is_named_though_one_request_waits_as_long() -> None:
    others = replace(FULL, waiting=34.0, idle_full=1.0, idle_waiting=18.0)  # 16 are of 25 requests
    assert kinds(others, inside_s=0.11) == [DEFAULT_EXECUTOR]
    assert DEFAULT_EXECUTOR not in kinds(replace(others, idle_full=0.1), inside_s=0.11)
    constant = replace(others, idle_waiting=33.0)  # no request waits for it
    assert DEFAULT_EXECUTOR not in kinds(constant, inside_s=0.11)
    semaphore = replace(others, kind="asyncio.Semaphore")
    assert WAITS_ELSEWHERE not in kinds(semaphore, inside_s=0.11)


def test_what_waits_without_any_request_is_no_limit_of_requests() -> None:
    consumers = PoolUse("asyncio.Queue", "shop.JOBS", 9, 1.0, 30.0, 25.0, idle_waiting=30.0)
    leader = PoolUse("threading.Lock", "shop.LEADER", 1, 1.0, None, 25.0, idle_full=1.0)
    for pool in (consumers, leader):
        [cause] = causes(pool)
        assert (cause.kind, cause.facts) == (WAITS_ELSEWHERE, None)


def test_nothing_else_is_waited_for_if_requests_of_one_user_take_as_long_on_average() -> None:
    """A few of them take long, so that the median of the first ones is short."""
    tasks = Tasks(alone_s=0.4, alone_high_s=0.5)
    varied = replace(record(inside_s=0.42), tasks=tasks)
    varied = replace(varied, load=replace(varied.load, model="closed"))
    assert WAITS_ELSEWHERE not in [cause.kind for cause in diagnosis.diagnose([varied])]


def test_a_full_pool_is_no_limit_if_nobody_waits_or_something_else_is_the_limit() -> None:
    assert DEFAULT_EXECUTOR not in kinds(FULL, inside_s=0.11)
    assert kinds(FULL, gil_utilisation=0.97, cpu_ms_per_request=16.0) == [GIL_SATURATED]
    pickled = PoolUse("ProcessPoolExecutor", "shop.POOL", 2, 1.0, 14.0, 25.0)
    assert kinds(pickled, gil_utilisation=0.97, cpu_ms_per_request=16.0) == [GIL_SATURATED]
    assert kinds(FULL, gil_utilisation=None, queued_s=20.0) == [DEFAULT_EXECUTOR]
    unknown = {"gil_utilisation": None, "cores_used": 1.5, "cpu_ms_per_request": 25.0}
    assert DEFAULT_EXECUTOR not in kinds(FULL, **unknown)
    assert kinds(FULL, cores_used=1.9, cpu_ms_per_request=31.0) == [CPU_SATURATED]
    assert kinds(FULL, run_s=0.002, rate=60.0, inside_s=0.4, alone_s=0.02) == [WAITS_ELSEWHERE]
    assert kinds(FULL, run_s=0.03, rate=30.0) == [LOOP_BLOCKED]


def test_a_pool_is_no_limit_if_its_calls_use_all_cores() -> None:
    """As threads that compute without the GIL do, and the load tool beside them."""
    computing = {"cpu_ms_per_request": 25.0, "rate": 60.0, "inside_s": 0.4, "alone_s": 0.03}
    two = replace(POOL, limit=2)
    assert WAITS_ELSEWHERE in kinds(two, cores_used=1.2, **computing)
    assert WAITS_ELSEWHERE not in kinds(two, cores_used=1.7, **computing)


def test_the_line_at_which_most_requests_await_is_named() -> None:
    line = HotLine("ask", "shop.py", 12, 0.9, "awaits", "route")
    [cause] = diagnosis.diagnose([replace(record(), who=Who((line,)))])
    assert cause.line == line
    assert "as long as alone, most of the time in ask (shop.py:12)" in diagnosis.clause(cause, 25)


@pytest.mark.parametrize(
    ("lock", "remedy"),
    [(LOG_LOCK, "QueueHandler and QueueListener"), (PROPERTY_LOCK, "cached_property of Django")],
)
def test_a_lock_of_the_standard_library_is_named_with_its_remedy(lock: str, remedy: str) -> None:
    line = HotLine("decide", "shop.py", 12, 0.9, "waits", "route", waits_for=lock)
    [cause] = diagnosis.diagnose([replace(record(), who=Who((line,)))])
    said = diagnosis.sentence(cause, 25)
    assert said.startswith(f"Requests wait for {lock}: with 25 users a")
    assert remedy in said


def test_the_lock_of_a_file_that_is_polled_is_named_although_the_tries_compute() -> None:
    line = HotLine("save", "shop.py", 12, 0.98, "waits", "route", waits_for=FILE_LOCK)
    busy = {"cores_used": 1.01, "queued_s": 12.0, "gil_utilisation": 0.65}
    polls = replace(record(**busy), who=Who((line,)))
    [cause] = diagnosis.diagnose([polls])
    said = diagnosis.sentence(cause, 25)
    assert said.startswith(f"Requests wait for {FILE_LOCK}: with 25 users a request")
    assert "a lock of threads before it" in said
    others = (replace(line, share=0.8), replace(line, waits_for=LOG_LOCK))
    for other in others:
        found = diagnosis.diagnose([replace(polls, who=Who((other,)))])
        assert WAITS_ELSEWHERE not in [each.kind for each in found]


def test_threads_that_compute_one_at_a_time_beside_a_free_core_and_gil_wait_for_a_lock() -> None:
    line = HotLine("parse", "shop.py", 12, 0.98, "waits", "route")
    alone = {"cores_used": 1.04, "gil_utilisation": 0.35, "alone_s": 0.02, "queued_s": 1.0}

    def found(line: HotLine = line, cores: int = 2, **values: Any) -> list[Cause]:
        one = replace(record(**alone | values), who=Who((line,)))
        return diagnosis.diagnose([replace(one, environment={"cores": cores})])

    [cause] = found()
    assert cause.kind == WAITS_ELSEWHERE
    said = diagnosis.sentence(cause, 25)
    assert "requests compute one at a time, on one of 2 cores" in said[0].lower() + said[1:]
    assert "parse (shop.py:12)" in said and "use several of them" in said
    for other in (
        found(gil_utilisation=0.55),  # the GIL may be why
        found(cores_used=1.3),
        found(queued_s=10.0),  # threads wait for a CPU
        found(alone_s=0.3),
        found(cores=1),
        found(line=replace(line, share=0.8)),
        found(line=replace(line, doing="holds the GIL")),
        found(run_s=0.05),  # the loop is blocked
    ):
        assert WAITS_ELSEWHERE not in [each.kind for each in other]


def test_what_would_remove_a_symptom_of_a_known_pool_is_not_measured() -> None:
    limiter = ThreadLimit(40, 40, 19, 1.0)
    pool = PoolUse("pool of SQLAlchemy", "shop.engine.pool", 6, 1.0, 18.0, 25.0)
    switches = []
    for found in ((pool,), ()):
        made = record(*found)
        threads = replace(made.application.threads, limiter=limiter)
        made = replace(made, application=replace(made.application, threads=threads))
        switches.append([*diagnosis.switches([made])])
    assert switches == [[], [THREAD_LIMIT]]


def test_a_full_pool_beside_free_ones_like_it_is_used_unevenly() -> None:
    lock = PoolUse("asyncio.Lock", "shop.solvers[0].turn", 1, 1.0, 20.0, 25.0, free_like_it=3)
    [cause] = causes(lock, rate=10.0)
    said = diagnosis.sentence(cause, 25)
    assert "it is held for 100 % of the time, while 3 others like it are free; spread" in said
    assert "like it" not in diagnosis.sentence(
        causes(replace(lock, free_like_it=0), rate=10.0)[0], 25
    )
    [cause] = causes(replace(POOL, free_like_it=1))
    assert diagnosis.clause(cause, 25).endswith("while 1 other like it is free")


def test_the_smallest_of_several_full_pools_is_the_limit() -> None:
    [cause] = causes(replace(FULL, limit=8), replace(POOL, limit=7))
    assert (cause.kind, cause.limit) == (WAITS_ELSEWHERE, 7)


def test_a_request_with_many_calls_fills_a_pool_for_longer_than_it_takes_alone() -> None:
    many = replace(FULL, waiting=119.0)  # 25 requests have 125 calls in it
    assert kinds(many, rate=10.0, alone_s=0.2) == [DEFAULT_EXECUTOR]
    assert kinds(FULL, rate=10.0, alone_s=0.2) == [WAITS_ELSEWHERE]


def test_a_queue_whose_items_wait_for_its_consumers_is_named_with_their_number() -> None:
    jobs = PoolUse(
        "asyncio.Queue", "shop.JOBS", None, 0.0, 0.0, 25.0, idle_waiting=1.0, queued=23.6
    )
    [cause] = causes(jobs, rate=10.0, alone_s=0.1, inside_s=2.4)
    assert (cause.kind, cause.limit, cause.value) == (WAITS_ELSEWHERE, 1, 23.6)
    assert diagnosis.sentence(cause, 25) == (
        "Requests wait for the only consumer of shop.JOBS (asyncio.Queue): 24 items wait in it; "
        "start more consumers, or do their work in the request itself."
    )
    several = replace(jobs, idle_waiting=3.0)
    [cause] = causes(several, rate=10.0, alone_s=0.1, inside_s=2.4)
    assert "the 3 consumers of shop.JOBS" in diagnosis.clause(cause, 25)
    short = replace(jobs, queued=9.0)  # other requests wait for something else
    written = replace(jobs, queued=900.0)  # nobody waits for these, such as lines of a log
    for other in (short, written):
        [cause] = causes(other, rate=10.0, alone_s=0.1, inside_s=2.4)
        assert "items" not in diagnosis.clause(cause, 25)


def test_a_queue_that_is_filled_on_demand_has_the_number_of_requests_that_are_served() -> None:
    queue = PoolUse("asyncio.Queue", "shop.IDLE", 4, 1.0, 19.0, 25.0)
    [cause] = causes(queue)  # 60/s of 0.1 s
    assert cause.limit == 6
    assert "an asyncio.Queue of 4 or more (about 6 requests are served at once): all" in (
        diagnosis.clause(cause, 25)
    )
    full = replace(queue, idle_queued=4.0)  # all parts were seen: a request uses one for a part
    for known in (replace(queue, limit=5), replace(queue, kind="asyncio.Semaphore"), full):
        [cause] = causes(known)
        assert (cause.limit, cause.facts) == (known.limit, known)
        assert "or more" not in diagnosis.clause(cause, 25)


def test_a_pool_of_processes_may_use_the_cpu() -> None:
    one = PoolUse("ProcessPoolExecutor", "shop.POOL", 1, 1.0, 20.0, 25.0)
    values = {"rate": 10.0, "cores_used": 1.0, "cpu_ms_per_request": 100.0}
    [cause] = causes(one, **values)
    assert (cause.kind, cause.facts) == (WAITS_ELSEWHERE, one)
    assert "a ProcessPoolExecutor of 1 process: all" in diagnosis.clause(cause, 25)
    assert kinds(replace(one, limit=2), **values | {"cores_used": 1.9}) == [CPU_SATURATED]


def test_rules_of_pools_are_per_process_but_a_backlog_limits_no_rate() -> None:
    assert all(rule.is_per_process for rule in pools.RULES if rule.kind != BACKLOG_GROWS)


BODY = Steps(parts=5.0, blocks=1.0, blocked_s=0.12, body_blocks=4.0, body_blocked_s=0.12)


def blocked(steps: Steps, run_s: float) -> list[Cause]:
    return causes(steps=steps, run_s=run_s, rate=8.0, alone_s=0.12, inside_s=3.0)


def test_a_response_body_and_a_background_task_are_told_from_their_route() -> None:
    [cause] = blocked(BODY, 0.12)
    assert (cause.kind, cause.facts) == (LOOP_BLOCKED, Blocks("response body", 4.0))
    assert cause.value == pytest.approx(0.03)
    said = diagnosis.clause(cause, 25)
    assert "the response body of GET /a runs on it for 30 ms" in said
    assert ", 4 times a request" in said
    [cause] = blocked(Steps(after_s=0.11), 0.001)
    assert "a background task of GET /a runs on it for 110 ms" in diagnosis.clause(cause, 25)
    assert "after its response" in diagnosis.clause(cause, 25)
    [cause] = blocked(Steps(blocks=1.0, blocked_s=0.12), 0.12)
    assert (cause.facts, cause.route) == (Blocks(None, 1.0), "GET /a")


def test_many_blocks_of_a_route_block_the_loop_together() -> None:
    [cause] = blocked(Steps(blocks=4.0, blocked_s=0.12), 0.03)
    assert cause.kind == LOOP_BLOCKED and cause.value == pytest.approx(0.03)
    assert "GET /a runs on it for 30 ms without a pause, 4 times" in diagnosis.clause(cause, 25)


@pytest.mark.parametrize(("share", "is_named"), [(0.15, True), (0.149, False)])
def test_pauses_of_all_requests_are_named_with_the_line_at_which_they_wait(
    share: float, is_named: bool
) -> None:
    line = HotLine("menu", "shop.py", 9, 0.9, "waits", "route")
    known = record()
    pausing = replace(known.application, pauses=Pauses(share, 0.61, 15))
    found = diagnosis.diagnose([replace(known, application=pausing, who=Who((line,)))])
    assert [each.kind for each in found] == [PAUSES if is_named else WAITS_ELSEWHERE]
    said = (
        "All requests of a process pause together, for 15 % of the time: none ends for up to "
        "610 ms, then most of the 15 inside end at once, most of the time in menu (shop.py:9); "
    )
    assert diagnosis.sentence(found[0], 25).startswith(said) is is_named
    blocked = replace(pausing, routes=record(run_s=0.03).application.routes)
    [cause] = diagnosis.diagnose([replace(record(rate=30.0), application=blocked)])
    assert cause.kind == LOOP_BLOCKED  # which explains pauses
