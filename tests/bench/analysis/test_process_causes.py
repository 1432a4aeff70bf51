"""Causes in several processes of a server, and those that look alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis
from offload.causes.execution import CPU_SATURATED
from offload.causes.processes import (
    FORK_WITH_THREADS,
    MANY_THREADS,
    REQUEST_FORKS,
    UNEVEN_PROCESSES,
    Uneven,
)
from offload.causes.rules import Cause
from offload.engine import builder
from offload.engine.application import (
    AliveThreads,
    Application,
    Place,
    PoolUse,
    ProcessTimes,
    RunningThread,
    ThreadLimit,
    Threads,
)
from offload.engine.record import ProcessShare, Record
from tests.records import changed, record_of

RECORD = record_of("run", "uvicorn_workers", "app=shop:app", 25, "run_server", "2026-01-01")
# four processes on four cores; a request computes for 5 ms
VALUES = {
    "rate": 500.0,
    "alone_s": 0.006,
    "response_mean_s": 0.05,
    "cpu_ms_per_request": 5.0,
    "cores_used": 2.5,
    "completed": 1500,
    "elapsed_s": 3.0,
    "busy_s": 8.0,
    "model": "closed",
    "environment": {"cores": 4},
}


def record(*shares: tuple[int | None, int | None, float | None], **values: Any) -> Record:
    """Return a record; a share has requests, connections and CPU time in s."""
    own = Application("asgi", processes=len(shares), inside_s=0.005)
    values["shares"] = tuple(ProcessShare(*each) for each in shares)
    return replace(changed(RECORD, **VALUES | values), application=own)


def causes(*records: Record) -> list[Cause]:
    found = diagnosis.diagnose(records)
    return [cause for cause in found if cause.kind == UNEVEN_PROCESSES]


KEPT = (590, 17, 3.0), (570, 7, 2.9), (340, 1, 1.8), (0, 0, 0.0)


def test_processes_whose_requests_wait_while_another_serves_nothing_are_uneven() -> None:
    [cause] = causes(record(*KEPT, keep_alive=True))
    said = diagnosis.sentence(cause, 25)
    assert said.startswith(
        "The processes share the load unevenly: 39 %, 38 %, 23 %, 0 % of the requests, 1 process "
        "serves nothing, a response takes 86.4 ms in one and 8.82 ms in another (17, 7, 1, 0 kept "
        "connections); close connections"
    )
    assert "a balancer" in said
    assert "more users" not in said
    facts = cause.facts
    assert isinstance(facts, Uneven)
    assert facts.keep_alive
    kept = record(*KEPT, connections=(17, 7, 1, 0))
    assert "uneven" in {flag.kind for flag in builder.trial_flags(kept)}


def test_uneven_connections_of_processes_that_only_await_are_no_harm() -> None:
    waits = (5100, 17, 0.9), (2100, 7, 0.4), (300, 1, 0.1), (0, 0, 0.0)  # each request takes 10 ms
    assert causes(record(*waits, response_mean_s=0.0101, alone_s=0.01)) == []
    kept = record(*waits, response_mean_s=0.0101, alone_s=0.01, connections=(17, 7, 1, 0))
    assert "uneven" not in {flag.kind for flag in builder.trial_flags(kept)}
    elsewhere = (510, 17, 0.1), (210, 7, 0.1), (30, 1, 0.0), (0, 0, 0.0)  # all wait alike
    assert causes(record(*elsewhere, response_mean_s=0.1, alone_s=0.01)) == []


def test_uneven_processes_are_no_cause_if_no_cpu_is_free_for_the_idle_ones() -> None:
    busy = (300, 12, 1.5), (300, 13, 1.5), (0, 0, 0.0), (0, 0, 0.0)
    values = {"environment": {"cores": 2}, "busy_s": 6.0, "cores_used": 1.9}
    found = diagnosis.diagnose([record(*busy, response_mean_s=0.12, **values)])
    assert [cause.kind for cause in found] == [CPU_SATURATED]


def test_even_processes_under_load_are_not_uneven() -> None:
    even = (390, 7, 2.0), (380, 6, 1.9), (370, 6, 1.9), (360, 6, 1.9)
    assert causes(record(*even)) == []
    assert causes(record((700, 13, 2.9), (700, 12, 2.9), busy_s=6.5)) == []
    few = (18, 3, 0.1), (9, 1, 0.05)  # by chance
    assert causes(record(*few, response_mean_s=0.5)) == []


def test_new_connections_are_uneven_if_one_process_computes_and_others_do_not() -> None:
    new = (1200, None, 2.9), (200, None, 0.5), (100, None, 0.2)
    [cause] = causes(record(*new))
    assert "take connections in bursts" in diagnosis.sentence(cause, 25)
    assert causes(record((600, None, 1.5), (500, None, 1.2), (400, None, 1.0))) == []
    assert causes(record(*new, busy_s=11.5)) == []  # no CPU is free
    assert causes(record(*new, response_mean_s=0.007)) == []  # nobody waits
    assert causes(record(*new, model="open")) == []
    assert causes(record((1200, None, None), (200, None, 0.5))) == []  # unknown


def test_a_server_with_a_queue_of_each_process_has_that_remedy() -> None:
    [cause] = causes(record(*KEPT))
    facts = cause.facts
    assert isinstance(facts, Uneven)
    own = replace(cause, facts=replace(facts, server="prefork"))
    assert "reuse_port=yes" in diagnosis.sentence(own, 25)


def test_processes_in_which_requests_take_differently_long_are_not_equally_fast() -> None:
    even = record((390, None, 0.1), (380, None, 0.1))

    def timed(*each: tuple[int, float]) -> Record:
        found = tuple(ProcessTimes(n, *each[n]) for n in (0, 1))
        return replace(even, application=replace(even.application, times=found))

    [cause] = causes(timed((200, 0.25), (180, 0.02)))
    assert diagnosis.sentence(cause, 25).startswith(
        "The processes are not equally fast: a request takes 250 ms in one and 20 ms in another; "
        "look at what each process takes for itself"
    )
    queues = (PoolUse("threading.Semaphore", limit=1, full=0.99, waiting=8.0, inside=9.0),)
    waits = changed(timed((200, 0.25), (180, 0.02)), cpu_ms_per_request=0.5, cores_used=0.3)
    own = replace(waits.application, inside_s=0.05, threads=Threads(pools=queues))
    [cause] = causes(replace(waits, application=own))
    said = diagnosis.sentence(cause, 25)
    assert said.startswith("Requests wait longer in some processes: a request takes 250 ms in one")
    limiter = ThreadLimit(40, 40, 3, 0.9)  # of anyio
    full = replace(waits.application, inside_s=0.05, threads=Threads(limiter=limiter))
    [cause] = causes(replace(waits, application=full))
    assert diagnosis.sentence(cause, 25).startswith("Requests wait longer in some processes")
    assert causes(timed((200, 0.055), (180, 0.02))) == []
    assert causes(timed((200, 0.0055), (180, 0.0006))) == []  # one of them waits for a CPU
    assert causes(timed((29, 0.25), (180, 0.02))) == []  # a few requests may differ by chance


def test_requests_that_fork_beside_threads_are_named() -> None:
    def forking(forks: int) -> list[Cause]:
        own = record((1500, None, 2.9))
        threads = Threads(forks=forks, forked_at=Place("seal", "shop.py", 48, 1))
        own = replace(own, application=replace(own.application, threads=threads))
        return [each for each in diagnosis.diagnose([own]) if each.kind == REQUEST_FORKS]

    [cause] = forking(160)
    said = diagnosis.clause(cause, 25)
    assert said.startswith("requests fork their process in seal (shop.py:48) (0.11 times each)")
    assert not forking(140)  # such as those of a pool that is created again


def test_most_windows_must_show_it() -> None:
    even = record((390, 7, 2.0), (380, 6, 1.9), (370, 6, 1.9), (360, 6, 1.9))
    assert causes(record(*KEPT), even) == []
    assert len(causes(record(*KEPT), even, record(*KEPT))) == 1


def test_threads_that_workers_lack_are_named_with_their_function_and_line() -> None:
    lost = (
        RunningThread("refresh", "shop.py", 12),
        RunningThread("_worker", "/lib/thread.py", 69, "quotes_0", is_pool=True),
        RunningThread("Feed.run", "feed.py", 3),
        RunningThread("poll", "feed.py", 9),
    )
    healthy = record((390, 7, 2.0), (380, 6, 1.9))
    own = replace(healthy, application=replace(healthy.application, threads=Threads(lost=lost)))
    [cause] = (c for c in diagnosis.diagnose([own]) if c.kind == FORK_WITH_THREADS)
    assert diagnosis.sentence(cause, 25).startswith(
        "4 threads of the parent ran while it forked its workers: refresh (shop.py:12), quotes_0 "
        "of a pool, Feed.run (feed.py:3) and 1 more; the workers lack what they did"
    )
    assert FORK_WITH_THREADS not in {c.kind for c in diagnosis.diagnose([healthy])}


def test_threads_beside_which_a_worker_forked_children_that_are_stuck_are_named() -> None:
    threads = Threads(beside=(RunningThread("refresh", "shop.py", 12),))
    healthy = record((390, 7, 2.0), (380, 6, 1.9))
    own = replace(healthy, application=replace(healthy.application, threads=threads))
    assert FORK_WITH_THREADS not in {c.kind for c in diagnosis.diagnose([own])}  # such as a helper
    own = replace(own, result=replace(own.result, failed={"timeout": 3}))
    [cause] = (c for c in diagnosis.diagnose([own]) if c.kind == FORK_WITH_THREADS)
    said = diagnosis.sentence(cause, 25)
    assert "while a thread of it ran: refresh (shop.py:12); one of these processes waits" in said
    assert "start processes by spawn or forkserver" in said


@pytest.mark.parametrize(
    ("count", "users", "is_named"), [(200, 64, True), (199, 64, False), (290, 100, False)]
)
def test_threads_that_requests_start_and_that_run_on_are_named_with_their_function(
    count: int, users: int, is_named: bool
) -> None:
    alive = AliveThreads("Diagnostics.warn", "shop.py", 12, count=count)
    known = changed(record((390, None, 0.1)), users=users)
    own = replace(known.application, threads=replace(known.application.threads, alive=alive))
    found = diagnosis.diagnose([replace(known, application=own)])
    found = [each for each in found if each.kind == MANY_THREADS]
    assert [each.kind for each in found] == [MANY_THREADS] * is_named
    if is_named:
        assert (
            "started 200 threads that still run in one process: Diagnostics.warn (shop.py:12)"
            in (diagnosis.sentence(found[0], users))
        )
