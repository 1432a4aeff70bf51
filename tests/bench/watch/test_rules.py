"""The rules of `offload watch`, on both sides of each threshold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from offload.causes import pools
from offload.causes.execution import CPU_SATURATED, GIL_SATURATED, LOOP_BLOCKED, THREAD_LIMIT
from offload.causes.machine import CPU_QUOTA, LISTEN_QUEUE
from offload.causes.memory import MEMORY_LIMIT
from offload.causes.processes import UNEVEN_PROCESSES
from offload.engine.application import HotLine, Who
from offload.engine.hot_lines import BLOCKS, Frame
from offload.engine.record import MemoryLimit, Resources, Throttling
from offload.studies.watch import diagnosis
from offload.studies.watch.diagnosis import WATCHED, Signs
from offload.studies.watch.sockets import SocketUse
from offload.studies.watch.threads import ANYIO, DEFAULT_EXECUTOR, Holder, LoopUse, PoolUse

LOOP = LoopUse(7, 7, 300, idle=0.4, running=0.0, locked=0.0, blocked=0.6, waits=6.0)
COMPUTES = replace(LOOP, running=0.6, blocked=0.0, waits=400.0)
LINE = HotLine("render", "shop.py", 12, 0.58, BLOCKS, "route")
POOL = PoolUse(7, ANYIO, 40, busy=0.95, locked=0.02)


def kinds(**signs: object) -> list[str]:
    return [seen.cause.kind for seen in diagnosis.find(Signs(**signs))]  # type: ignore[arg-type]


def sockets(requests: int, seconds: float = 10.0, in_progress: int = 0) -> SocketUse:
    use = SocketUse(5, seconds, places={8000: 64}, opened=0)
    use.requests, use.in_progress = Counter({7: requests}), Counter({7: in_progress})
    return use


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        (LOOP, [LOOP_BLOCKED]),
        (replace(LOOP, waits=29.0), [LOOP_BLOCKED]),  # 21 ms at a time
        (replace(LOOP, waits=31.0), []),  # many short waits, such as those for a local cache
        (replace(LOOP, idle=0.55, blocked=0.45), []),
        (replace(LOOP, locked=0.6, blocked=0.0), []),  # other threads hold the GIL
        (replace(LOOP, waits=None), []),
    ],
)
def test_a_loop_is_blocked_if_it_waits_elsewhere_for_long(loop: LoopUse, found: list[str]) -> None:
    assert kinds(loops=[loop]) == found


@pytest.mark.parametrize(
    ("requests", "line", "found"),
    [
        (200, LINE, [LOOP_BLOCKED]),  # 20 a second of 30 ms
        (400, LINE, []),  # 40 a second of 15 ms: a busy loop
        (200, replace(LINE, share=0.4), []),  # not this line
        (200, None, []),
    ],
)
def test_a_loop_that_computes_is_blocked_by_long_requests_only(
    requests: int, line: HotLine | None, found: list[str]
) -> None:
    found_who = Who((line,) if line else ())
    assert kinds(loops=[COMPUTES], sockets=sockets(requests), who=found_who) == found
    assert kinds(loops=[COMPUTES], sockets=SocketUse(), who=found_who) == []


def test_the_clause_has_the_line_and_the_other_loops() -> None:
    others = [replace(LOOP, pid=8, thread=8, idle=0.45), replace(LOOP, pid=9, thread=9, idle=0.42)]
    [seen] = diagnosis.find(Signs(loops=[LOOP, *others], who=Who((LINE,))))
    assert seen.sentence == (
        "render (shop.py:12, route) blocks the event loop for 58 % of the time, and all other "
        "requests of pid 7 wait (and so of 2 other processes); await what it waits for, or run it "
        "in a thread: by asyncio.to_thread, or in FastAPI, Starlette and Django as a def route."
    )
    [seen] = diagnosis.find(Signs(loops=[LOOP]))
    assert seen.sentence.startswith(
        "The event loop of pid 7 is blocked for 60 % of the time, 100 ms at a time, and all other"
    )


@pytest.mark.parametrize(
    ("pool", "in_progress", "found"),
    [
        (POOL, 0, [THREAD_LIMIT]),
        (replace(POOL, busy=0.85), 300, []),
        (replace(POOL, busy=None), 300, []),
        (replace(POOL, threads=10), 50, []),  # 10 requests in progress: it can grow
        (replace(POOL, threads=10), 60, [THREAD_LIMIT]),  # 12: two of them wait for a thread
        (replace(POOL, locked=0.6), 300, []),  # they wait for a lock: a pool of connections
        (replace(POOL, pool=DEFAULT_EXECUTOR, threads=3), 10, []),
        (replace(POOL, pool=DEFAULT_EXECUTOR, threads=3), 25, [pools.DEFAULT_EXECUTOR]),
    ],
)
def test_a_pool_is_full_if_its_threads_are_busy_and_none_can_be_added(
    pool: PoolUse, in_progress: int, found: list[str]
) -> None:
    assert kinds(pools=[pool], sockets=sockets(0, in_progress=in_progress)) == found


def test_the_full_threads_of_a_server_have_its_remedy() -> None:
    pool = replace(POOL, pool="gunicorn", threads=4)
    [seen] = diagnosis.find(Signs(pools=[pool], sockets=sockets(0, in_progress=60)))
    assert seen.sentence.startswith("All 4 threads of gunicorn in pid 7 are in use for 9")
    assert seen.sentence.endswith("; give it more threads (--threads), or use more processes.")


def test_threads_that_wait_for_the_gil_are_no_full_pool() -> None:
    assert kinds(pools=[POOL], rho={7: 0.95}) == [GIL_SATURATED]


@pytest.mark.parametrize(("rho", "found"), [(0.89, []), (0.9, [GIL_SATURATED])])
def test_a_gil_that_is_held_names_its_threads(rho: float, found: list[str]) -> None:
    holders = [Holder(7, "worker", 3, 0.7, Frame("price", "shop.py", 5))]
    seen = diagnosis.find(Signs(rho={6: 0.2, 7: rho}, holders=holders))
    assert [each.cause.kind for each in seen] == found
    for each in seen:
        assert each.sentence.startswith(
            "The GIL of pid 7 is held 90 % of the time, mostly by 3 threads worker at price "
            "(shop.py:5); more threads gain nothing"
        )


def test_a_machine_without_a_free_core_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offload.resource_limits.cpu_count", lambda: 4)
    assert kinds(cpu=3.6) == [CPU_SATURATED]
    assert kinds(cpu=3.5) == []


def test_a_cpu_quota_explains_all_that_is_slow() -> None:
    stopped = Resources(throttling=Throttling(0.5, 100, 60, 2.0))
    signs = {"loops": [LOOP], "rho": {7: 0.95}, "pools": [POOL]}
    assert kinds(**signs, record=replace(WATCHED, resources=stopped)) == [CPU_QUOTA]
    rarely = Resources(throttling=Throttling(0.5, 100, 10, 0.1))
    assert CPU_QUOTA not in kinds(**signs, record=replace(WATCHED, resources=rarely))


@pytest.mark.parametrize(("used_mib", "found"), [(98.0, [MEMORY_LIMIT]), (80.0, [])])
def test_a_memory_limit_that_is_reached_is_named(used_mib: float, found: list[str]) -> None:
    limit = MemoryLimit("its control group", 100.0, used_mib, 0, 0.0)
    record = replace(WATCHED, resources=Resources(memory_limit=limit))
    assert kinds(record=record) == found


@pytest.mark.parametrize(
    ("resolving", "remedy"),
    [(0.0, "; give slow calls a ThreadPoolExecutor of their own"), (0.9, "; cache the addresses")],
)
def test_a_full_default_executor_has_the_remedy_for_what_fills_it(
    resolving: float, remedy: str
) -> None:
    pool = PoolUse(7, DEFAULT_EXECUTOR, 3, busy=1.0, locked=0.0, resolving=resolving)
    [seen] = diagnosis.find(Signs(pools=[pool], sockets=sockets(0, in_progress=50)))
    assert seen.sentence.startswith("All 3 threads of asyncio's default executor, which ")
    assert remedy in seen.sentence


def uneven(
    cores: tuple[float, float],
    kept: tuple[int, int] = (0, 0),
    requests: tuple[int, int] = (0, 0),
) -> Signs:
    """Return the signs of two processes with kept connections, all of which have a request."""
    use = SocketUse(6, 12.0, opened=0, pairs=5, kept_seconds=10.0, accepting=frozenset({7, 8}))
    use.kept = use.kept_in_progress = Counter({7: 5 * kept[0], 8: 5 * kept[1]})
    use.kept_requests = Counter({7: requests[0], 8: requests[1]})
    return Signs(cores=dict(zip((7, 8), cores, strict=True)), busy_cores=1.5, sockets=use)


@pytest.mark.parametrize(
    ("signs", "is_named"),
    [
        (uneven((0.2, 0.2), kept=(7, 1), requests=(200, 130)), True),  # 350 and 77 ms
        (uneven((0.2, 0.1), kept=(7, 1), requests=(900, 130)), False),  # 78 and 77 ms: loops
        (uneven((0.2, 0.2), kept=(7, 1), requests=(400, 19)), False),  # too few
        (uneven((0.2, 0.2), kept=(4, 3), requests=(400, 800)), False),  # other requests
        (uneven((0.9, 0.05), kept=(7, 1)), True),  # one computes all the time
        (uneven((0.9, 0.6)), False),
        (uneven((0.8, 0.05)), False),
    ],
)
def test_processes_are_uneven_if_requests_wait_in_one_of_them(
    signs: Signs, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offload.resource_limits.cpu_count", lambda: 2)
    assert (UNEVEN_PROCESSES in [seen.cause.kind for seen in diagnosis.find(signs)]) is is_named
    full = replace(signs, busy_cores=1.9)  # another process could not compute, either
    if not signs.sockets.kept_requests[7]:
        assert diagnosis.find(full) == []


def test_the_shares_of_uneven_processes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offload.resource_limits.cpu_count", lambda: 2)
    [slow] = diagnosis.find(uneven((0.2, 0.2), kept=(7, 1), requests=(200, 130)))
    assert slow.clause == (
        "the processes share the load unevenly: a response of pid 7 takes 350 ms, a response of "
        "pid 8 takes 76.9 ms (7, 1 kept connections)"
    )
    [idle] = diagnosis.find(uneven((0.9, 0.05)))
    assert idle.sentence.startswith(
        "The processes share the load unevenly: pid 7 uses 0.90 cores, pid 8 uses 0.05 cores"
    )


@pytest.mark.parametrize(("dropped", "found"), [(20, [LISTEN_QUEUE]), (1, [])])
def test_a_listen_queue_is_named_if_it_drops_connections(dropped: int, found: list[str]) -> None:
    use = SocketUse(
        6, 12.0, dropped={8000: dropped, 8001: 0}, places={8000: 8, 8001: 5}, opened=200
    )
    record = diagnosis._record(Resources(), use)
    assert kinds(record=record) == found
    for seen in diagnosis.find(Signs(record=record)):
        assert seen.sentence.startswith(
            "The listen queue of 8 was full and dropped 20 connections while 200 "
        )
