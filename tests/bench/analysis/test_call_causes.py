"""Causes in what requests do too often: thread hops, connections, calls, new processes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis, execution
from offload.causes.calls import (
    DEBUG_TOOLS,
    MANY_CALLS,
    MIDDLEWARE_LAYERS,
    NEW_CONNECTIONS,
    NEW_PROCESSES,
    RETRIES,
    Children,
    Hops,
)
from offload.causes.ceiling import USERS, Ceiling
from offload.causes.execution import BODY_PARTS, NEW_OBJECTS, THREAD_HOPS
from offload.causes.figures import figures
from offload.causes.rules import Cause
from offload.engine import hot_lines
from offload.engine.application import Collector, HotLine, Steps, Who
from offload.engine.hot_lines import AWAITS, BLOCKS, HOLDS
from offload.engine.record import ClientPorts
from tests.bench.analysis.test_pool_causes import causes, kinds, record

HOPS = {
    "steps": Steps(parts=1000.0),
    "handovers": 200_000,
    "completed": 200,
    "rate": 20.0,
    "alone_s": 0.06,
    "inside_s": 1.2,
    "cpu_ms_per_request": 50.0,
    "cores_used": 1.0,
    "gil_utilisation": 0.95,
}


def test_many_hops_are_named_with_the_parts_of_the_body() -> None:
    [cause] = causes(**HOPS)
    assert (cause.kind, cause.value, cause.facts) == (THREAD_HOPS, 1000.0, Hops(1000.0))
    said = diagnosis.sentence(cause, 25)
    assert "hands over to a thread 1,000 times: its body has 1,000 parts" in said
    assert "parts of 64 KiB" in said
    for part_bytes, is_small in ((32_767, True), (32_768, False)):
        [cause] = causes(**HOPS, body_bytes=1000 * part_bytes)
        assert ("parts of 64 KiB" in diagnosis.sentence(cause, 25)) is is_small
    [cause] = causes(**HOPS | {"steps": Steps(parts=1.0)})
    assert "its body" not in diagnosis.sentence(cause, 25)


@pytest.mark.parametrize(
    "values",
    [
        {"handovers": 1000},  # an async generator
        {"cpu_ms_per_request": 301.0},  # most of the CPU time is spent on something else
        {"alone_s": 2.6},  # long calls
        {"handovers": 1800, "cpu_ms_per_request": 0.4, "alone_s": 0.001},
        {"handovers": None},
    ],
)
def test_what_looks_like_many_hops_is_not_named(values: dict[str, Any]) -> None:
    assert THREAD_HOPS not in kinds(**HOPS | values)


def test_many_hops_explain_the_garbage_that_they_create() -> None:
    hopping = record(**HOPS)
    memory = replace(hopping.application.memory, collector=Collector(0.4, 0.03, 5))
    own = replace(hopping.application, memory=memory)
    found = diagnosis.diagnose([replace(hopping, application=own)])
    assert [cause.kind for cause in found] == [THREAD_HOPS]


PARTS = {
    "steps": Steps(parts=1000.0, blocks=1.0, blocked_s=0.03),
    "handovers": 0,
    "completed": 2000,
    "rate": 100.0,
    "alone_s": 0.01,
    "inside_s": 0.01,
    "cpu_ms_per_request": 10.0,
    "cores_used": 1.0,
    "gil_utilisation": 0.97,
}


def test_many_parts_of_a_body_are_a_cause_and_explain_the_busy_loop() -> None:
    [cause] = causes(**PARTS)
    assert (cause.kind, cause.value) == (BODY_PARTS, 1000)
    said = diagnosis.sentence(cause, 25)
    assert "the body of each response has 1,000 parts" in said.lower() and "64 KiB" in said


def test_parts_that_threads_send_are_compared_with_the_cost_of_one_request_alone() -> None:
    """On gunicorn with 64 threads: 2,500 parts take 22.6 ms alone, and 95 ms of CPU under load."""
    contended = PARTS | {"steps": Steps(parts=2500.0), "cpu_ms_per_request": 95.0}
    assert BODY_PARTS in kinds(**contended | {"alone_s": 0.0226, "rate": 20.8})
    assert BODY_PARTS not in kinds(**contended | {"alone_s": 0.095})


@pytest.mark.parametrize(
    "values",
    [
        {"steps": Steps(parts=199.0), "cpu_ms_per_request": 1.2},  # few
        {"cpu_ms_per_request": 12.1, "alone_s": 0.013},  # most of the CPU time is something else's
        {"cores_used": 0.2, "gil_utilisation": 0.2},  # idle
        {"steps": Steps()},
    ],
)
def test_what_looks_like_many_parts_is_not_named(values: dict[str, Any]) -> None:
    assert BODY_PARTS not in kinds(**PARTS | values)


def test_many_calls_of_each_request_are_a_cause() -> None:
    [cause] = causes(ports=ClientPorts(calls_per_s=1800.0), rate=60.0, inside_s=0.1)
    assert (cause.kind, cause.value) == (MANY_CALLS, 30.0)
    said = "each request calls a database or a service about 30 times"
    assert diagnosis.clause(cause, 25) == said
    for calls in (1190.0, None):
        few = ClientPorts(calls_per_s=calls)
        assert MANY_CALLS not in kinds(ports=few, rate=60.0, inside_s=0.1)


# Of 60 requests/s for 0.42 s, 25 are inside.
@pytest.mark.parametrize(
    ("calls", "used", "is_named"),
    [
        (720.0, 27, True),
        (720.0, 300, False),  # at once
        (720.0, 10, False),  # at once, as far as a pool of 10 allows
        (720.0, None, False),
        (590.0, 27, False),
    ],
)
def test_fewer_calls_are_a_cause_if_they_are_one_after_another(
    calls: float, used: int | None, is_named: bool
) -> None:
    found = causes(ports=ClientPorts(calls_per_s=calls, used=used))
    [*named] = (cause for cause in found if cause.kind == MANY_CALLS)
    assert len(named) == is_named
    assert all("12 times, one call after another" in diagnosis.clause(c, 25) for c in named)


# 600 requests of 25 users: each opens a connection.
BUSY = {"cores_used": 0.9, "cpu_ms_per_request": 15.0, "alone_s": 0.02}


@pytest.mark.parametrize(
    ("opened", "values", "said"),
    [
        (1200, {}, "each request opens 1 new connection to what it calls"),
        (2400, {}, "each request opens 3 new connections"),
        (1100, {}, None),  # not each request
        (None, {}, None),
        (1190, {"users": 500}, None),  # 500 of them may be of requests that did not end
        (1200, {"kept": 0.9}, None),  # what the server calls opens them
        (1200, {"kept": None}, None),  # the server has no connection to others
        (1200, {"keep_alive": True}, None),  # the server may close them
        (1200, {"failed": {"timeout": 600}}, None),  # the load opened them
        (1600, {"cores_used": 0.3, "cpu_ms_per_request": 5.0}, "opens 2 new connections"),
        (1600, {"cores_used": 0.3, "inside_s": 0.02}, None),  # requests do not wait for them
        (1800, {"cores_used": 0.3, "inside_s": 0.02}, "opens 2 new connections"),
        (1100, {"cores_used": 0.3, "inside_s": 0.02, "sent_again": 0.4}, "opens 1 new connection"),
        (1000, {"cores_used": 0.3, "inside_s": 0.02, "sent_again": 0.4}, None),  # not each request
        (1100, {"cores_used": 0.3, "inside_s": 0.02, "sent_again": 0.3}, None),  # such as HTTP
    ],
)
def test_connections_that_each_request_opens_are_a_cause_while_they_cost_cpu_or_are_several(
    opened: int | None, values: dict[str, Any], said: str | None
) -> None:
    values = BUSY | {"kept": 0.0, "sent_again": 0.0} | values
    kept, again = values.pop("kept"), values.pop("sent_again")
    ports = ClientPorts(28_232, 0, opened, kept=kept, sent_again=again)
    found = causes(ports=ports, **values)
    [*named] = (cause for cause in found if cause.kind == NEW_CONNECTIONS)
    assert len(named) == (said is not None)
    assert all((said or "") in diagnosis.clause(cause, 25) for cause in named)


# 600 requests: each starts a process.
SPAWNING: dict[str, Any] = {
    "cores_used": 1.8,
    "cpu_ms_per_request": 30.0,
    "children_cpu_s": 12.0,
    "started": 640,
}


def test_a_process_for_each_request_is_a_cause_with_its_cpu_time() -> None:
    [cause] = [each for each in causes(**SPAWNING) if each.kind == NEW_PROCESSES]
    assert (cause.value, cause.facts) == (0.667, Children(20.0))
    assert "such processes use 20 ms of CPU a request, 67 %" in diagnosis.sentence(cause, 25)


@pytest.mark.parametrize(
    "values",
    [
        {"children_cpu_s": 5.0},  # less than CHILDREN
        {"children_cpu_s": None},
        {"started": 30},  # a server that replaces its workers
        {"cores_used": 0.3},  # they cost little
    ],
)
def test_what_looks_like_a_process_for_each_request_is_not_named(values: dict[str, Any]) -> None:
    assert NEW_PROCESSES not in kinds(**SPAWNING | values)


def layered(layers: int | None, **values: Any) -> list[str]:
    busy = {"cores_used": 1.0, "cpu_ms_per_request": 1.2} | values
    one = record(**busy)
    own = replace(one.application, layers=layers)
    return [cause.kind for cause in diagnosis.diagnose([replace(one, application=own)])]


def test_layers_of_middleware_are_a_cause_while_they_take_much_of_the_cpu_time() -> None:
    assert MIDDLEWARE_LAYERS in layered(6)
    assert MIDDLEWARE_LAYERS not in layered(2)
    assert MIDDLEWARE_LAYERS not in layered(None)
    assert MIDDLEWARE_LAYERS not in layered(6, cpu_ms_per_request=2.0)  # the route takes most
    assert MIDDLEWARE_LAYERS not in layered(6, cores_used=0.1)


def test_tools_of_developers_are_a_cause_in_a_busy_process() -> None:
    def tools(*names: str, **values: Any) -> list[Cause]:
        one = record(**{"cores_used": 1.0, "cpu_ms_per_request": 1.2} | values)
        own = replace(one.application, debug_tools=names)
        found = diagnosis.diagnose([replace(one, application=own)])
        return [cause for cause in found if cause.kind == DEBUG_TOOLS]

    [cause] = tools("tracemalloc", "asyncio's debug mode")
    assert diagnosis.sentence(cause, 25).startswith(
        "Tracemalloc and asyncio's debug mode are switched on, which may cost much of the CPU time"
    )
    assert tools() == []
    assert tools("tracemalloc", cores_used=0.1) == []


RECOMPUTES = HotLine("recompute", "league.py", 32, 0.14, BLOCKS, "asyncio task")
LATE: dict[str, Any] = {
    "loop_lag_p50_ms": 0.1,
    "loop_lag_p99_ms": 96.0,
    "run_s": 0.0001,
    "cpu_ms_per_request": 0.3,
}


def late(line: HotLine | None = RECOMPUTES, others: float = 0.0, **values: Any) -> Cause | None:
    one = replace(record(**LATE | values), who=None if line is None else Who((line,)))
    found = figures([one])
    assert found is not None
    ceiling = Ceiling(102.0, USERS, 0.98, 1.0, others)
    return execution.find_loop_stalls(replace(found, ceiling=ceiling))


def test_a_loop_that_is_blocked_now_and_then_is_named_with_the_line() -> None:
    cause = late()
    assert cause is not None
    assert (cause.value, cause.line) == (0.096, RECOMPUTES)
    assert "96 ms late or more, mostly in recompute (league.py:32, asyncio task)" in (
        diagnosis.sentence(cause, 25)
    )
    assert late(None) is None
    assert late(replace(RECOMPUTES, share=0.02)) is None
    assert late(replace(RECOMPUTES, doing=AWAITS)) is None
    assert late(others=0.2) is None  # another program may have stopped the process
    assert late(loop_lag_p99_ms=40.0) is None
    assert late(loop_lag_p99_ms=None) is None
    assert late(loop_lag_p50_ms=20.0) is not None  # it is blocked for most of the time
    # The requests of 25 users may arrive together.
    assert late(run_s=0.003) is None
    assert late(cpu_ms_per_request=3.0) is None


OWN = HotLine("take_snapshot", "board.py", 36, 0.5, HOLDS, "thread")


def background(*lines: HotLine, others: float = 0.0, **values: Any) -> Cause | None:
    late = {"loop_lag_p50_ms": 51.0, "loop_lag_p99_ms": 400.0, "gil_utilisation": 0.7}
    found = figures([replace(record(**LATE | late | values), who=Who(lines))])
    assert found is not None
    ceiling = Ceiling(102.0, USERS, 0.98, 1.0, others)
    return execution.find_background_gil(replace(found, ceiling=ceiling))


def test_own_threads_that_hold_the_gil_for_long_at_a_time_are_named() -> None:
    cause = background(OWN)
    assert cause is not None
    assert (cause.kind, cause.value, cause.line) == (execution.BACKGROUND_GIL, 0.5, OWN)
    assert background(replace(OWN, share=0.1)) is not None
    assert background(replace(OWN, share=0.09)) is None
    assert background(OWN, loop_lag_p99_ms=49.0) is None
    assert background(OWN, run_s=0.01) is None  # 25 requests that arrive together
    assert background(OWN, others=0.2) is None
    assert background(OWN, replace(RECOMPUTES, share=0.04)) is None  # it blocks the loop
    route = HotLine("quote", "board.py", 80, 0.6, HOLDS, "route")
    assert background(OWN, route) is None


@pytest.mark.parametrize(
    ("longest_s", "usually_late_ms", "is_named"),
    [(0.011, 0.1, True), (0.009, 0.1, False), (None, 0.1, False), (0.03, 20.0, False)],
)
def test_a_line_of_a_route_stalls_the_loop_only_if_a_request_blocked_it(
    longest_s: float | None, usually_late_ms: float, is_named: bool
) -> None:
    one = record(**LATE | {"loop_lag_p50_ms": usually_late_ms})
    [route] = one.application.routes
    own = replace(one.application, routes=(replace(route, longest_s=longest_s),))
    line = replace(RECOMPUTES, context="route")
    found = figures([replace(one, application=own, who=Who((line,)))])
    assert found is not None
    known = replace(found, ceiling=Ceiling(102.0, USERS, 0.98, 1.0, 0.0))
    assert (execution.find_loop_stalls(known) is not None) is is_named


CREATES = HotLine("quote", "shop.py", 7, 0.2, BLOCKS, "route", "an httpx client")


def test_what_requests_create_again_is_named_with_its_line() -> None:
    busy: dict[str, Any] = {"cores_used": 0.8, "gil_utilisation": 0.5}

    def created(line: HotLine, **values: Any) -> list[Cause]:
        own = replace(record(**busy | values), who=Who(created=line))
        return [each for each in diagnosis.diagnose([own]) if each.kind == NEW_OBJECTS]

    [cause] = created(CREATES)
    assert diagnosis.sentence(cause, 64) == (
        "Requests create an httpx client again and again, in quote (shop.py:7, route), which "
        "blocks the event loop for 20 % of the time; create it once, such as when the application "
        "is loaded, and keep it for all requests."
    )
    held = replace(CREATES, share=0.4, doing=hot_lines.HOLDS)
    [cause] = created(held)  # of the GIL, which is held for half of the time
    assert "which holds the GIL for 20 % of the time" in diagnosis.sentence(cause, 64)
    [cause] = created(held, gil_utilisation=None, cores_used=1.3)
    assert cause.value == 0.4
    [cause] = created(replace(CREATES, creates=hot_lines.STATEMENT))
    assert "create one engine of SQLAlchemy for all requests" in diagnosis.sentence(cause, 64)
    [cause] = created(replace(CREATES, creates=hot_lines.MODULE))
    said = diagnosis.sentence(cause, 64)
    assert said.startswith("Requests search for a module that they import again and again, in")
    assert "this one fails each time" in said
    sampled = replace(record(**busy), who=Who(created=CREATES))
    assert NEW_OBJECTS in [each.kind for each in diagnosis.diagnose([sampled, record(**busy)])]
    for other in (
        replace(CREATES, share=0.19),
        replace(held, share=0.39),
        replace(CREATES, context="asyncio task"),
        replace(CREATES, context="background task"),
    ):
        assert not created(other)
    assert not created(CREATES, cores_used=0.3)  # an idle process
    [rule] = (each for each in diagnosis.RULES if each.kind == NEW_OBJECTS)
    for share, explains in ((0.5, True), (0.49, False)):
        [cause] = created(replace(CREATES, share=share))
        assert rule.explains(cause, execution.LOOP_BLOCKED) is explains


@pytest.mark.parametrize(("share", "is_named"), [(0.26, True), (0.24, False)])
def test_threads_that_sleep_before_retries_are_named_with_their_line(
    share: float, is_named: bool
) -> None:
    line = HotLine("level", "stock.py", 53, share, hot_lines.RETRIES, "route")
    sleeping = replace(record(rate=150.0, alone_s=0.02), who=Who((line,)))
    found = [each for each in diagnosis.diagnose([sleeping]) if each.kind == RETRIES]
    assert bool(found) is is_named
    for cause in found:
        assert cause.line == line
        assert diagnosis.sentence(cause, 64).startswith(
            "Requests call others again after failures, and sleep before that in level (stock.py:53"
        )
    waits = replace(sleeping, who=Who((replace(line, doing="waits"),)))
    # A background task retries while requests compute.
    beside = replace(record(cpu_ms_per_request=400.0), who=Who((line,)))
    for other in (waits, beside):
        assert RETRIES not in [each.kind for each in diagnosis.diagnose([other])]
