"""Causes are decided from figures: each rule, its threshold, and similar causes it must reject."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis, execution
from offload.causes.calls import DEBUG_TOOLS
from offload.causes.ceiling import USERS, Ceiling
from offload.causes.diagnosis import NOTHING, UNEXPLAINED
from offload.causes.execution import (
    BACKGROUND_GIL,
    COST_GROWS,
    CPU_SATURATED,
    GIL_IMPORT,
    GIL_SATURATED,
    LOOP_BLOCKED,
    THREAD_CONTENTION,
    THREAD_LIMIT,
    WAITS_ELSEWHERE,
    Blocks,
    find_thread_limit,
)
from offload.causes.failures import REQUESTS_FAIL, FailedRequests
from offload.causes.figures import Figures, Signs, figures
from offload.causes.machine import (
    BLAS_THREADS,
    CLIENT_PORTS,
    CPU_QUOTA,
    LISTEN_QUEUE,
    Dropped,
)
from offload.causes.pools import PAUSES
from offload.causes.processes import (
    FORK_WITH_THREADS,
    MANY_THREADS,
    UNEVEN_PROCESSES,
    LostThreads,
    Uneven,
)
from offload.causes.rules import Cause
from offload.engine import who
from offload.engine.application import (
    AliveThreads,
    Application,
    Blas,
    Collector,
    HotLine,
    Pauses,
    PoolUse,
    Route,
    RunningThread,
    ThreadLimit,
    Threads,
)
from offload.engine.record import ClientPorts, ProcessShare, Record, Throttling
from offload.engine.rounds import WindowDesign
from offload.suites import Case, Request
from tests.applications.seeded import ADVISED, FOLDER, Seeded
from tests.installed import lacks, require
from tests.records import record_of
from tests.rounds import measure_window

KINDS = [rule.kind for rule in (*diagnosis.RULES, *diagnosis.LAST_WORDS)]
FACTS = {
    BLAS_THREADS: Blas("OpenBLAS", "OPENBLAS_NUM_THREADS", 3, 0.5),
    LISTEN_QUEUE: Dropped(7, 40),
    CLIENT_PORTS: ClientPorts(28_232, 28_100),
    FORK_WITH_THREADS: LostThreads((RunningThread("refresh", "shop.py", 12),)),
    REQUESTS_FAIL: FailedRequests(2, 40, None),
    DEBUG_TOOLS: ("tracemalloc",),
    PAUSES: Pauses(0.5, 0.6, 12),
    MANY_THREADS: AliveThreads("warn", "shop.py", 12, count=300),
    CPU_QUOTA: Throttling(1.0, 102, 86, 9.5),
    UNEVEN_PROCESSES: Uneven("uvicorn_workers", (ProcessShare(9, 2), ProcessShare(0, 0)), (), True),
}
RECORD = record_of("run", "hypercorn", "app=shop:app", 25, "run_server", "2026-01-01")
IDLE = Figures(
    Signs(gil_utilisation=0.05, wait_share=0.9, stretch=1.0, limiter_full=0.0, limiter_total=40),
    processes=1,
    rate=100.0,
    alone_s=0.05,
    cores_used=0.1,
    busy_cores=0.1,
    threads_used=0,
    loop_lag_s=0.0,
    gil_enabled=True,
    has_loop=True,
    cores=2,
    ceiling=Ceiling(102.0, USERS, 0.98, 1.0, 0.0),
)


def found(signs: dict[str, Any] | None = None, **values: Any) -> list[Cause]:
    """Return the causes of an idle application with some other figures."""
    values = {"busy_cores": values.get("cores_used", IDLE.cores_used), **values}
    return diagnosis.find(replace(IDLE, signs=replace(IDLE.signs, **(signs or {})), **values))


def kinds(signs: dict[str, Any] | None = None, **values: Any) -> list[str]:
    return [cause.kind for cause in found(signs, **values)]


FAR = Ceiling(480.0, USERS, 0.2, 0.2, 0.0)  # users and CPU allow five times the rate


def test_nothing_is_wrong_if_no_rule_applies_and_the_figures_are_known() -> None:
    [cause] = found()
    assert (cause.kind, cause.value, cause.facts) == (NOTHING, 0.98, IDLE.ceiling)
    said = diagnosis.sentence(cause, 25)
    assert said == "Nothing is wrong: 99.96/s are 98 % of what the 25 users allow."
    assert kinds(cores_used=None) == kinds(rate=None) == kinds({"wait_share": None}) == []
    assert kinds(ceiling=None) == []


def test_a_rate_far_below_what_is_allowed_is_unexplained_if_no_rule_applies() -> None:
    far = Ceiling(200.0, USERS, 0.5, 0.84, 0.0)
    [cause] = found(ceiling=far)
    assert (cause.kind, cause.value, cause.threshold) == (UNEXPLAINED, 0.5, diagnosis.NEAR)
    assert diagnosis.clause(cause, 25) == (
        "50 % of the rate is unexplained: CPU, users and workers allow 200.0/s, and it is 100.0/s"
    )
    assert kinds(ceiling=replace(far, reached_high=0.85)) == []  # nothing is certain
    assert kinds(ceiling=replace(far, reached=0.72, reached_high=0.85)) == [NOTHING]
    assert kinds(ceiling=replace(far, others=0.1)) == []  # it may be because of them
    near = replace(far, reached=0.72, reached_high=1.0)
    assert kinds(ceiling=replace(near, others=0.3)) == [NOTHING]
    assert kinds(ceiling=replace(near, others=0.4)) == []  # the CPU that is left is the limit
    assert kinds({"stretch": 12.0}, rate=40.0, ceiling=far) == [WAITS_ELSEWHERE]


BLOCKED = {"loop_blocked_by": "GET /a", "loop_blocked_by_s": 0.04}


def test_a_route_that_fills_the_loop_blocks_it() -> None:
    [cause] = found(BLOCKED, rate=24.0)
    assert (cause.kind, cause.route, cause.value) == (LOOP_BLOCKED, "GET /a", 0.04)
    assert cause.threshold == execution.GIL_HELD_S  # it computes without the GIL, or not at all
    [cause] = found(BLOCKED | {"gil_utilisation": 0.6}, rate=24.0)
    assert cause.threshold == execution.BLOCKED_S
    short = BLOCKED | {"loop_blocked_by_s": 0.019}
    assert kinds(short | {"gil_utilisation": 0.6}, rate=50.0) == [NOTHING]
    assert kinds(short | {"gil_utilisation": 0.4}, rate=50.0) == [LOOP_BLOCKED]
    held = short | {"gil_utilisation": 0.97}
    assert kinds(held, rate=50.0, cores_used=1.0) == [LOOP_BLOCKED, GIL_SATURATED]
    collected = Collector(share=0.6)
    assert kinds(held, rate=50.0, cores_used=1.0, collector=collected) == ["collector"]
    brief = {"loop_blocked_by_s": 0.004, "gil_utilisation": 0.4}
    assert kinds(BLOCKED | brief, rate=200.0) == [NOTHING]
    assert kinds(BLOCKED, rate=5.0) == [NOTHING]  # the loop has time left
    assert kinds(BLOCKED, rate=24.0, has_loop=False) == [NOTHING]


def test_a_loop_that_another_task_than_a_routes_blocks_is_late_while_the_process_is_idle() -> None:
    late = {"stretch": 20.0, "loop_blocked_by": "GET /a", "loop_blocked_by_s": 0.001}
    blocked = late | {"loop_blocked_s": 0.033}
    [cause] = found(blocked, ceiling=FAR, rate=25.0, loop_lag_s=0.013)
    assert (cause.kind, cause.route, cause.value) == (LOOP_BLOCKED, None, 0.033)
    assert kinds(blocked, ceiling=FAR, rate=25.0, loop_lag_s=0.004) == [WAITS_ELSEWHERE]
    short = late | {"loop_blocked_s": 0.019}
    assert kinds(short, ceiling=FAR, rate=25.0, loop_lag_s=0.013) == [WAITS_ELSEWHERE]
    assert kinds(blocked, rate=25.0, loop_lag_s=0.013, cores_used=0.8) == [NOTHING]
    late_by = {"ceiling": FAR, "rate": 25.0, "loop_lag_s": 0.013, "threads_used": 4}
    assert kinds(blocked, **late_by) == [LOOP_BLOCKED]  # the threads hardly hold the GIL
    assert kinds(blocked | {"gil_utilisation": 0.6}, **late_by) == [WAITS_ELSEWHERE]


def test_a_sampled_line_that_blocks_the_loop_is_named_however_short_its_blocks_are() -> None:
    line = HotLine("rows", "shop.py", 38, 0.96, "blocks the loop", "response body")
    [cause] = found(rate=48.0, hottest=line)
    assert (cause.kind, cause.line) == (LOOP_BLOCKED, line)
    assert diagnosis.clause(cause, 8).startswith(
        "rows (shop.py:38, response body) blocks the event loop for 96 % of the time"
    )
    assert kinds(rate=48.0, hottest=replace(line, share=0.49)) == [NOTHING]
    assert kinds(rate=48.0, hottest=replace(line, doing="waits")) == [NOTHING]
    assert kinds(rate=48.0, hottest=line, cores_used=0.8) == [LOOP_BLOCKED]  # without the GIL
    holding = {"gil_utilisation": 0.6}
    assert kinds(holding, rate=48.0, hottest=line, cores_used=0.8) == [NOTHING]


def test_the_machines_cpu_is_a_limit_that_others_come_before() -> None:
    busy = {"cpu_utilisation": 0.95, "gil_utilisation": 0.5, "wait_share": 0.1}
    [cause] = found(busy, rate=300.0, cores_used=1.9)
    assert (cause.kind, cause.value, cause.threshold) == (CPU_SATURATED, 0.95, 0.9)
    assert kinds(busy | {"cpu_utilisation": 0.89}, rate=300.0, cores_used=1.8) == [NOTHING]
    both = kinds(busy | {"gil_utilisation": 0.95}, rate=50.0, cores_used=1.9)
    assert both == [GIL_SATURATED, CPU_SATURATED]


def test_threads_that_hold_the_gil_are_not_a_blocked_loop() -> None:
    busy = {"gil_utilisation": 0.97, "wait_share": 0.2}
    assert kinds(BLOCKED | busy, rate=50.0, threads_used=25, cores_used=1.0) == [GIL_SATURATED]


def test_the_gil_is_saturated_by_requests_that_hold_it_for_long() -> None:
    busy = {"gil_utilisation": 0.95, "wait_share": 0.2}
    [cause] = found(busy, rate=50.0, cores_used=1.0)
    assert (cause.kind, cause.value, cause.threshold) == (GIL_SATURATED, 0.95, 0.8)
    assert cause.gil_s == pytest.approx(0.019)
    assert kinds(busy, rate=3000.0, cores_used=1.0) == [NOTHING]  # short requests
    line = HotLine("summary", "gpx.py", 24, 0.5, "holds the GIL")
    assert kinds(busy, rate=300.0, cores_used=1.0, hottest=line) == [GIL_SATURATED]
    few = replace(line, share=0.49)
    assert kinds(busy, rate=300.0, cores_used=1.0, hottest=few) == [NOTHING]
    assert kinds(busy, rate=400.0, cores_used=1.0, hottest=line) == [NOTHING]
    for used, cores_used, is_full in (
        (0.81, 1.0, True),
        (0.79, 1.0, False),
        (0.89, 1.3, False),
        (0.91, 1.3, True),
    ):
        causes = kinds(busy | {"gil_utilisation": used}, rate=50.0, cores_used=cores_used)
        assert (GIL_SATURATED in causes) == is_full


def test_threads_of_the_application_that_hold_the_gil_are_named() -> None:
    def idle(cores: float) -> list[Record]:
        record = record_of("run", "uvicorn_httptools", "app=shop:app", 25, "measure", "")
        return [replace(record, baseline=replace(record.baseline, idle_cores=cores))]

    full = {"gil_utilisation": 0.97, "wait_share": 0.2}
    own = HotLine("compute", "board.py", 63, 0.25, "holds the GIL", "thread")
    lines = [own, replace(own, line=54, share=0.09)]
    busy = {"rate": 30.0, "cores_used": 1.0, "records": idle(0.9)}
    [cause] = found(full, background=lines, **busy)
    assert (cause.kind, cause.value, cause.line) == (BACKGROUND_GIL, 0.34, own)
    assert diagnosis.clause(cause, 25) == (
        "threads that the application started itself hold the GIL for 34 % of the time, mostly in "
        "compute (board.py:63), and requests wait for it"
    )
    for context, doing in (
        ("thread pool", "holds the GIL"),
        ("asyncio task", "blocks the loop"),
    ):
        works = replace(own, context=context, doing=doing, share=0.34)
        [cause] = found(full, background=[works], **busy)
        assert diagnosis.clause(cause, 25).startswith(
            "work that goes on without requests, too, takes the GIL for 34 % of the time, mostly in"
        )
        more = found(full, background=[works, replace(works, line=9, share=1.1)], **busy)
        assert BACKGROUND_GIL not in [cause.kind for cause in more]  # also that of requests
        of_requests = found(full, background=[works], **(busy | {"records": idle(0.2)}))
        assert BACKGROUND_GIL not in [cause.kind for cause in of_requests]
    in_pool = replace(own, context="thread pool", share=0.9)  # more than was seen without requests
    for calls, cores, is_named in ((0, 0.5, True), (15, 0.5, False), (0, 0.4, False)):
        [record] = idle(cores)
        threads = Threads(handovers=calls)  # of 100 requests
        result = replace(record.result, completed=100)
        application = replace(record.application, threads=threads)
        few = replace(record, result=result, application=application)
        causes = found(full, background=[in_pool], **(busy | {"records": [few]}))
        assert (BACKGROUND_GIL in [cause.kind for cause in causes]) is is_named
    polls = replace(own, doing="computes without the GIL", share=0.34)
    [cause] = found(full, background=[polls], **busy)
    assert "take the GIL again and again, also without requests, for 34 %" in diagnosis.clause(
        cause, 25
    )
    rests = found(full, background=[polls], **(busy | {"records": idle(0.1)}))
    assert BACKGROUND_GIL not in [each.kind for each in rests]
    assert kinds(full, background=lines[:1], **busy) == [BACKGROUND_GIL, GIL_SATURATED]
    few = replace(own, share=0.19)
    assert kinds(full, background=[few], **busy) == [GIL_SATURATED]
    assert BACKGROUND_GIL in kinds({"gil_utilisation": 0.8}, background=lines, **busy)
    assert BACKGROUND_GIL not in kinds({"gil_utilisation": 0.7}, background=lines, **busy)
    blocked = kinds(BLOCKED | full, background=lines, **(busy | {"rate": 20.0}))
    assert blocked == [BACKGROUND_GIL]  # the loop waits for the GIL
    request = HotLine("quote", "board.py", 80, 0.5, "holds the GIL", "route")
    assert kinds(full, background=lines, hottest=request, **busy) == [GIL_SATURATED]
    assert BACKGROUND_GIL not in kinds({"gil_utilisation": None}, background=lines, **busy)
    by_requests = kinds(full, background=lines, **(busy | {"records": idle(0.1)}))
    assert by_requests == [GIL_SATURATED]  # they give these threads their work


def test_an_unknown_gil_is_known_by_one_core_of_several() -> None:
    unknown = {"gil_utilisation": None, "wait_share": 0.2}
    assert kinds(unknown, rate=50.0, cores_used=1.0) == [GIL_SATURATED]
    assert kinds(unknown, rate=50.0, cores_used=1.0, cores=1) == [NOTHING]
    assert kinds(unknown, rate=50.0, cores_used=1.6) == [NOTHING]
    assert kinds(unknown, rate=50.0, cores_used=1.0, gil_enabled=False) == [NOTHING]


def test_a_process_that_waits_for_a_cpu_is_not_idle_and_its_gil_is_unknown() -> None:
    unknown = {"gil_utilisation": None, "wait_share": 0.7, "stretch": 12.0}
    assert kinds(unknown, rate=20.0, cores_used=0.4, busy_cores=1.1) == []
    assert kinds(unknown, rate=400.0, cores_used=0.4, busy_cores=1.1) == [NOTHING]


def test_all_threads_in_use_are_the_limit_unless_they_wait_for_something_else() -> None:
    full = {"limiter_full": 0.95, "stretch": 1.1}
    [cause] = found(full, rate=780.0, threads_used=40)  # 40 threads of 50 ms
    assert (cause.kind, cause.limit, cause.value) == (THREAD_LIMIT, 40, 0.95)
    assert kinds(full | {"limiter_full": 0.05}, rate=780.0) == [NOTHING]
    pool = full | {"stretch": 30.0}
    [cause] = found(pool, rate=40.0, threads_used=40, ceiling=FAR)
    assert (cause.kind, cause.limit) == (WAITS_ELSEWHERE, 2)


def test_threads_that_background_tasks_hold_after_the_responses_are_the_limit() -> None:
    """64 users wait for 40 threads, of which requests have hardly any."""

    def busy(waiting: int, handovers: int | None = None) -> Record:
        threads = Threads(limiter=ThreadLimit(40, 40, waiting, 1.0), handovers=handovers)
        own = Application("asgi", threads=threads)
        return replace(RECORD, application=own, result=replace(RECORD.result, completed=80))

    full = {"limiter_full": 1.0, "stretch": 300.0, "concurrency": 52.0}
    values: dict[str, Any] = {"rate": 40.0, "alone_s": 0.004, "threads_used": 40, "ceiling": FAR}
    [cause] = found(full, records=[busy(50)], **values)
    assert (cause.kind, cause.limit, cause.facts) == (THREAD_LIMIT, 40, Blocks("background task"))
    assert "mostly by background tasks after the responses; make the background task async" in (
        diagnosis.sentence(cause, 64)
    )
    assert kinds(full, records=[busy(50, 320)], **values) == [THREAD_LIMIT]  # and dependencies
    assert kinds(full, records=[busy(12)], **values) == [WAITS_ELSEWHERE]  # requests have them
    assert kinds(full | {"limiter_full": 0.8}, records=[busy(50)], **values) == [WAITS_ELSEWHERE]


def test_threads_of_which_a_request_uses_several_at_once_are_a_suspicion() -> None:
    """Measured: 6 calls of 0.12 s at once for each of 64 users; a request alone takes 0.13 s."""

    def busy(calls: float) -> Record:
        threads = Threads(limiter=ThreadLimit(40, 40, 344, 1.0), handovers=round(80 * calls))
        own = Application("asgi", threads=threads)
        return replace(RECORD, application=own, result=replace(RECORD.result, completed=80))

    full: dict[str, Any] = {"limiter_full": 1.0, "stretch": 9.3, "concurrency": 63.9}
    values: dict[str, Any] = {"rate": 53.8, "alone_s": 0.1275, "threads_used": 40, "ceiling": FAR}

    def limit(calls: float, rate: float = 53.8) -> Cause | None:
        of = replace(IDLE, records=[busy(calls)], busy_cores=0.6, **values | {"rate": rate})
        return find_thread_limit(replace(of, signs=replace(IDLE.signs, **full)))

    cause = limit(6)
    assert cause is not None and (cause.limit, cause.needs_gain) == (40, True)
    assert limit(1) is None
    assert limit(6, rate=20.0) is None  # each call takes far longer than the request alone


def test_a_pool_of_connections_is_a_wait_while_the_process_is_idle() -> None:
    wait = {"stretch": 12.0}
    [cause] = found(wait, rate=40.0, ceiling=FAR)
    assert (cause.kind, cause.limit, cause.value) == (WAITS_ELSEWHERE, 2, 12.0)
    assert kinds({"stretch": 1.9}, rate=40.0) == [NOTHING]
    assert kinds(wait | {"wait_share": 0.4}, rate=40.0) == [NOTHING]
    assert kinds(wait, rate=40.0, cores_used=0.6) == [NOTHING]


@pytest.mark.parametrize(("after_s", "grows"), [(0.0101, True), (0.0099, False), (None, False)])
def test_a_request_alone_that_takes_twice_as_long_after_the_load_grows(
    after_s: float | None, grows: bool
) -> None:
    baseline = replace(RECORD.baseline, alone_after_s=after_s)
    causes = found(records=[replace(RECORD, baseline=baseline)], alone_s=0.005, rate=3.0)
    assert (COST_GROWS in [cause.kind for cause in causes]) == grows
    records = [replace(RECORD, baseline=baseline)]
    left = found({"limiter_full": 1.0}, records=records, alone_s=0.005, rate=3.0)
    assert COST_GROWS not in [cause.kind for cause in left]  # background tasks go on after the load
    for kind in ("ThreadPoolExecutor", "threading.Lock"):  # nobody holds a lock after the load
        used = Application("wsgi", threads=Threads(pools=(PoolUse(kind, "a", 1, 0.6),)))
        records = [replace(RECORD, baseline=baseline, application=used)]
        causes = found(records=records, alone_s=0.005, rate=3.0)
        is_found = COST_GROWS in [cause.kind for cause in causes]
        assert is_found == (grows and kind == "threading.Lock")
    for inside_s in (0.0021, 0.0019):  # else it waits for what others do in the process
        inside = replace(RECORD.application, inside_s=inside_s)
        records = [replace(RECORD, baseline=baseline, application=inside)]
        causes = found(records=records, alone_s=0.005, rate=3.0)
        assert (COST_GROWS in [each.kind for each in causes]) == (grows and inside_s > 0.002)
    quick = replace(RECORD.baseline, alone_after_s=0.0025)  # of 1 ms: a cold cache
    causes = found(records=[replace(RECORD, baseline=quick)], alone_s=0.001, rate=3.0)
    assert COST_GROWS not in [cause.kind for cause in causes]


def test_a_request_that_costs_more_in_every_window_grows() -> None:
    def windows(*growth: float | None) -> list[Record]:
        routes = [Route("GET /a", 90, cpu_growth=each) for each in growth]
        return [replace(RECORD, application=Application("asgi", routes=(r,))) for r in routes]

    [cause] = found(records=windows(1.9, 2.1), cores_used=0.6)
    assert (cause.kind, cause.value, cause.route) == (COST_GROWS, 2.0, "GET /a")
    assert "Requests of GET /a cost more and more" in diagnosis.sentence(cause, 25)
    assert kinds(records=windows(1.3, 1.3), cores_used=0.6) == [NOTHING]
    assert kinds(records=windows(2.0, None), cores_used=0.6) == [NOTHING]  # noise, or a first use
    assert kinds(records=windows(2.0, 2.0), cores_used=0.4) == [NOTHING]
    [grown] = windows(2.0)
    [route] = grown.application.routes
    few = replace(grown.application, routes=(replace(route, requests=74),))
    for processes in (1, 2):
        causes = kinds(
            records=[replace(grown, application=few)],
            cores_used=0.6 * processes,
            busy_cores=0.6 * processes,
            processes=processes,
        )
        assert COST_GROWS not in causes
    for cpu_s, is_named in ((0.0021, True), (0.0019, False)):  # at 100/s
        own = replace(grown, application=replace(grown.application, cpu_s=cpu_s))
        assert (COST_GROWS in kinds(records=[own], cores_used=0.6, rate=100.0)) is is_named
    alone_s = IDLE.alone_s or 0.0
    for after, cpu, expected in (  # the machine was slower, unless a request mostly waits
        (0.8, 0.6, NOTHING),
        (1.0, 0.6, COST_GROWS),
        (0.8, 0.4, COST_GROWS),
        (0.8, None, COST_GROWS),
    ):
        later = replace(grown.baseline, alone_after_s=after * alone_s)
        application = replace(grown.application, cpu_s=cpu and cpu * alone_s)
        own = replace(grown, baseline=later, application=application)
        assert kinds(records=[own], cores_used=0.6) == [expected], (after, cpu)


def test_threads_whose_requests_are_slower_together_hinder_each_other() -> None:
    many, one = (replace(RECORD, server=replace(RECORD.server, workers=n)) for n in (64, 1))
    values: dict[str, Any] = {"has_loop": False, "cores_used": 1.2, "alone_s": 0.04}
    values["records"] = [many]
    [cause] = found(rate=11.0, **values)
    assert (cause.kind, cause.value) == (THREAD_CONTENTION, 0.44)
    assert diagnosis.clause(cause, 64) == (
        "threads hinder each other: with 64 users the rate is 0.44 times that of requests one "
        "after another"
    )
    assert THREAD_CONTENTION not in kinds(rate=18.0, **values)
    assert THREAD_CONTENTION not in kinds(rate=11.0, **values | {"has_loop": True})
    assert THREAD_CONTENTION not in kinds(rate=11.0, **values | {"cores_used": 0.3})
    assert THREAD_CONTENTION not in kinds(rate=110.0, **values | {"alone_s": 0.004})
    assert THREAD_CONTENTION not in kinds(rate=11.0, **values | {"records": [one]})
    assert THREAD_CONTENTION not in kinds(rate=11.0, processes=2, **values)
    busy = replace(FAR, others=0.3)
    assert THREAD_CONTENTION not in kinds(rate=11.0, ceiling=busy, **values)


def test_an_import_that_enabled_the_gil_comes_first() -> None:
    busy = {"gil_utilisation": 0.95, "wait_share": 0.2, "gil_enabled_by": "needs_gil"}
    causes_ = found(busy, rate=50.0, cores_used=1.0)
    assert [cause.kind for cause in causes_] == [GIL_IMPORT, GIL_SATURATED]
    assert causes_[0].module == "needs_gil"


def test_every_kind_has_a_sentence_that_ends_in_what_to_do() -> None:
    every = [
        Cause(kind, 0.5, 0.1, "GET /a", "numpy", 40, 0.02, facts=FACTS.get(kind)) for kind in KINDS
    ]
    said = [diagnosis.sentence(cause, 100) for cause in every]
    assert all(text.endswith(".") for text in said)
    remedied = [cause.kind for cause, text in zip(every, said, strict=True) if "; " in text]
    assert remedied == [kind for kind in KINDS if kind != NOTHING]
    elsewhere = diagnosis.sentence(Cause(LOOP_BLOCKED, 0.5), 100)
    assert "for 500 ms at a time, not by a route, but by another asyncio task" in elsewhere
    route = "GET /\x1b[2J"  # a path that clears a terminal
    assert "\x1b" not in diagnosis.sentence(Cause(LOOP_BLOCKED, 0.5, route=route), 100)


def test_a_sentence_that_starts_with_a_function_keeps_its_letters() -> None:
    line = HotLine("emit", "shop.py", 38, 0.96, "blocks the loop", "route")
    cause = Cause(LOOP_BLOCKED, 0.5, line=line)
    assert diagnosis.sentence(cause, 100).startswith("emit (shop.py:38, route) blocks the")


SERVER = {"asgi": "uvicorn_httptools", "wsgi": "gunicorn_gthread", "tornado": "loop"}
WSGI = ("flask_", "plain_pool", "numpy_", "seeded_site.wsgi")
# The GIL is the limit only of a process that has the CPU for it, and a process that waits for a CPU
# is not idle: then nothing else may run.
TIMING = (
    "gil_saturated",
    BACKGROUND_GIL,
    "blas_threads",
    "new_connections",
    "waits_elsewhere",
    "collector",
    "arenas",
    NOTHING,
    UNEXPLAINED,
)
NEEDS_IDLE = ("starlette_middleware:app",)
MEASURED = [
    pytest.param(each, id=each.app, marks=pytest.mark.timing if is_alone else ())
    for each in ADVISED
    if each.python is None
    for is_alone in [each.cause in TIMING or each.app in NEEDS_IDLE]
]


@pytest.mark.server
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seeded", MEASURED)
def test_the_seeded_cause_is_found_in_a_short_measurement(seeded: Seeded) -> None:
    for package in seeded.packages:
        pytest.importorskip(package, reason=lacks(package))
    is_wsgi = seeded.app.startswith(WSGI)
    is_tornado = seeded.app.startswith("tornado_")
    server = SERVER["tornado" if is_tornado else "wsgi" if is_wsgi else "asgi"]
    require(server)
    settings = {"workers": seeded.users} if is_wsgi else {}
    request = Request(seeded.request)
    work, path = f"app={seeded.app}", str(FOLDER)
    case = Case(server, work, seeded.users, settings=settings, path=path, request=request)
    has_lines = seeded.cause == BACKGROUND_GIL
    if has_lines and who.find_py_spy() is None:
        pytest.skip(lacks("py_spy"))
    design = WindowDesign(sampled=(0,)) if has_lines else None
    record = measure_window(case, with_gil=True, design=design)
    assert record.problem is None, record.problem
    found_ = diagnosis.diagnose([record])
    assert [str(cause.kind) for cause in found_][:1] == [seeded.cause], figures([record])
    assert seeded.named in diagnosis.sentence(found_[0], seeded.users)
