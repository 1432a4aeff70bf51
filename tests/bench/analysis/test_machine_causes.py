"""Causes in what the machine allows a server, and those that look alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from offload.causes import diagnosis
from offload.causes.diagnosis import NOTHING
from offload.causes.execution import CPU_SATURATED, GIL_SATURATED, LOOP_BLOCKED, WAITS_ELSEWHERE
from offload.causes.gains import Gain
from offload.causes.machine import BLAS_THREADS, CLIENT_PORTS, CPU_QUOTA, LISTEN_QUEUE
from offload.engine import builder
from offload.engine.application import Application, Blas, Failing, Route, Threads
from offload.engine.record import ClientPorts, Record, Throttling
from tests.records import changed, record_of

RECORD = record_of("run", "uvicorn_httptools", "app=shop:app", 25, "run_server", "2026-01-01")
# one process that computes for 20 ms a request and uses 1 of 2 cores
VALUES = {
    "rate": 50.0,
    "alone_s": 0.02,
    "cpu_ms_per_request": 20.0,
    "cores_used": 1.0,
    "completed": 150,
    "elapsed_s": 3.0,
    "environment": {"cores": 2},
}


def record(*, inside_s: float = 0.5, run_s: float = 0.001, **values: Any) -> Record:
    """Return the record of an application that computes, with other values."""
    own = Application("asgi", routes=(Route("GET /", 150, inside_s, 0.02, run_s, run_s),))
    own = replace(own, inside_s=inside_s, processes=1)
    return replace(changed(RECORD, **VALUES | values), application=own)


def kinds(*records: Record) -> list[str]:
    return [cause.kind for cause in diagnosis.diagnose(records)]


THROTTLED = Throttling(1.0, 30, 26, 2.1)


def test_a_quota_that_stops_the_server_explains_what_a_stopped_thread_looks_like() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"cores_used": 1.0, "environment": {"cores": 1}}, CPU_SATURATED),
        ({"gil_utilisation": 0.97}, GIL_SATURATED),
        ({"run_s": 0.02, "inside_s": 0.02}, LOOP_BLOCKED),
        ({"cores_used": 0.2, "cpu_ms_per_request": 4.0, "gil_utilisation": 0.2}, WAITS_ELSEWHERE),
    ]
    for values, alike in cases:
        assert alike in kinds(record(**values))
        assert kinds(record(throttling=THROTTLED, **values)) == [CPU_QUOTA]


def test_a_quota_that_stops_it_seldom_or_never_is_no_cause() -> None:
    saturated = {"cores_used": 1.9, "gil_utilisation": 0.5}
    for throttling in (Throttling(2.0, 30, 7, 0.1), Throttling(2.0, 30, 0, 0.0), Throttling()):
        assert kinds(record(throttling=throttling, **saturated)) == [CPU_SATURATED]
    idle = Throttling(2.0, 0, 0, 0.0)  # the group did not run
    fast = {"alone_s": 0.5, "cores_used": 0.5, "gil_utilisation": 0.5, "model": "closed"}
    assert kinds(record(throttling=idle, **fast)) == [NOTHING]


def test_periods_of_all_windows_count() -> None:
    windows = [record(throttling=each) for each in (THROTTLED, Throttling(1.0, 30, 0, 0.0))]
    [cause] = diagnosis.diagnose(windows)
    assert cause.facts == Throttling(1.0, 60, 26, 2.1)
    assert diagnosis.sentence(cause, 25).startswith(
        "26 of 60 periods were throttled: the quota of 1 CPU"
    )
    assert kinds(record(throttling=THROTTLED), record(), record()) == [CPU_QUOTA]


def test_a_throttled_load_of_any_server_is_flagged() -> None:
    found = {flag.kind: flag for flag in builder.trial_flags(changed(RECORD, throttling=THROTTLED))}
    assert "26 of 30 periods were throttled" in found["throttled"].message
    seldom = changed(RECORD, throttling=Throttling(1.0, 30, 7, 0.1))
    assert "throttled" not in {flag.kind for flag in builder.trial_flags(seldom)}


BLAS = Blas("OpenBLAS", "OPENBLAS_NUM_THREADS", 1, 0.5)
# two cores, on which two processes of two threads each want more
BUSY = {"cores_used": 1.9, "queued_s": 9.0, "gil_utilisation": 0.3}


def with_blas(blas: Blas = BLAS, kind: str = "wsgi", processes: int = 2, **values: Any) -> Record:
    busy = record(**BUSY | values)
    own = replace(
        busy.application, kind=kind, threads=Threads(blas=blas), processes=processes, inside_most=2
    )
    return replace(busy, application=own)


def test_blas_threads_beside_as_many_calls_as_cores_are_named_with_their_variable() -> None:
    assert kinds(with_blas()) == [BLAS_THREADS]
    [cause] = diagnosis.diagnose([with_blas()])
    assert diagnosis.sentence(cause, 8) == (
        "1 thread of OpenBLAS in each process takes 50 % of the CPU time, while 4 calls compute at "
        "once: more threads than cores; set OPENBLAS_NUM_THREADS=1 in the server's environment."
    )
    assert diagnosis.switches([with_blas()])[BLAS_THREADS].variables == {
        "OPENBLAS_NUM_THREADS": "1"
    }


def test_blas_threads_that_are_idle_or_have_cores_are_no_cause() -> None:
    assert kinds(with_blas(Blas("OpenBLAS", "OPENBLAS_NUM_THREADS", 1, 0.02))) == [CPU_SATURATED]
    assert kinds(with_blas(Blas("OpenBLAS", "OPENBLAS_NUM_THREADS", 0, 0.0))) == [CPU_SATURATED]
    assert kinds(with_blas(Blas())) == [CPU_SATURATED]
    assert BLAS_THREADS not in kinds(with_blas(environment={"cores": 16}))
    assert BLAS_THREADS not in kinds(with_blas(cores_used=0.5, queued_s=0.1))  # nobody waits
    alone = with_blas(kind="asgi", processes=1)  # one loop: its calls have both cores
    assert BLAS_THREADS not in kinds(alone)
    assert BLAS_THREADS not in diagnosis.switches([alone])


def test_a_gain_decides_whether_blas_threads_are_the_cause() -> None:
    slower = Gain("OPENBLAS_NUM_THREADS=1", 0.9, 0.8, 1.0)
    assert BLAS_THREADS not in {
        cause.kind for cause in diagnosis.diagnose([with_blas()], {BLAS_THREADS: slower})
    }
    faster = Gain("OPENBLAS_NUM_THREADS=1", 2.0, 1.9, 2.1)
    [cause] = diagnosis.diagnose([with_blas()], {BLAS_THREADS: faster})
    assert "Measured with OPENBLAS_NUM_THREADS=1: 2 times the rate" in diagnosis.sentence(cause, 8)
    few = with_blas(Blas("MKL", "MKL_NUM_THREADS", 3, 0.5), kind="asgi", processes=1)
    assert BLAS_THREADS not in kinds(
        few
    )  # only a suspicion: one loop, and 3 + 1 threads on 2 cores
    assert diagnosis.switches([few])[BLAS_THREADS].variables == {"MKL_NUM_THREADS": "1"}


def test_blas_threads_in_the_processes_of_a_pool_are_a_suspicion() -> None:
    """They may also be threads of Python."""
    of_pool = replace(BLAS, processes=8)
    pool = with_blas(of_pool, kind="asgi", processes=1)
    assert BLAS_THREADS not in kinds(pool)
    assert BLAS_THREADS in diagnosis.switches([pool])
    for cores_used, is_suspected in ((1.85, True), (1.75, False)):
        values = {"cores_used": cores_used, "queued_s": 0.0}
        few = with_blas(of_pool, kind="asgi", processes=1, **values)
        assert (BLAS_THREADS in diagnosis.switches([few])) is is_suspected
    faster = Gain("OPENBLAS_NUM_THREADS=1", 2.0, 1.9, 2.1)
    [cause] = diagnosis.diagnose([pool], {BLAS_THREADS: faster})
    assert "while 8 calls compute at once" in diagnosis.sentence(cause, 64)


def test_a_full_listen_queue_is_named_from_1_percent_of_the_requests_on() -> None:
    dropping = record(listen_overflows=6)
    assert LISTEN_QUEUE in kinds(dropping)
    [cause] = (c for c in diagnosis.diagnose([dropping]) if c.kind == LISTEN_QUEUE)
    assert "dropped 6 connections while 150 requests ended" in diagnosis.sentence(cause, 25)
    assert diagnosis.switches([dropping])[LISTEN_QUEUE].text == "keep_alive=yes"
    for overflows in (0, 1, None):
        assert LISTEN_QUEUE not in kinds(record(listen_overflows=overflows))


def test_used_up_ports_are_named_only_if_connections_fail() -> None:
    full = ClientPorts(28_232, 28_100)
    [cause] = (
        c
        for c in diagnosis.diagnose([record(ports=full, failed={"other": 7})])
        if c.kind == CLIENT_PORTS
    )
    assert "28,232 ports of clients are used up, 28,100 of them in TIME_WAIT" in diagnosis.sentence(
        cause, 25
    )
    assert CLIENT_PORTS not in kinds(record(ports=full))
    assert CLIENT_PORTS not in kinds(record(ports=ClientPorts(28_232, 9_000), failed={"other": 7}))
    stopped = record(ports=full, failed={"other": 9_000}, problem="builtin stopped", rate=None)
    assert CLIENT_PORTS in kinds(stopped)
    assert "ports" in {flag.kind for flag in builder.trial_flags(stopped)}
    own = record()
    own = replace(
        own, application=replace(own.application, failing=Failing("OSError: [Errno 99] Cannot"))
    )
    assert CLIENT_PORTS in kinds(own)
