"""builtin counts every request once, by its outcome."""

from __future__ import annotations

import socket
import ssl
import threading
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from offload.loads import Load
from offload.loads.builtin import parse
from offload.loads.engine.figures import CountedTime, Samples, quantile, summary
from offload.loads.engine.loops import ClosedLoop
from tests.loads.conftest import SLOT_S, Server, run_here
from tests.waiting import wait_until

GOOD = [
    "/",
    "/204",
    "/302",
    "/continue",
    "/chunked",
    "/http10",
    "/slow-head",
    "/says-close",
    "/extra",
    "/two-answers",
]
BAD = {
    "/404": "4xx",
    "/500": "5xx",
    "/empty": "reset",
    "/reset": "reset",
    "/partial-head": "reset",
    "/mid-body": "reset",
    "/garbage": "other",
}


def load_of(server: Server, path: str, **more: object) -> Load:
    return replace(Load(server.url(path), users=3, seconds=None, requests=9), **more)  # type: ignore[arg-type]


def counted(load: Load) -> tuple[int | None, dict[str, int | None]]:
    measured = run_here(load)
    return measured.figures.completed, {kind: n for kind, n in measured.figures.failed.items() if n}


@pytest.mark.parametrize("keep_alive", [False, True])
@pytest.mark.parametrize("path", GOOD)
def test_an_answer_is_completed_however_it_ends(
    server: Server, path: str, keep_alive: bool
) -> None:
    assert counted(load_of(server, path, keep_alive=keep_alive)) == (9, {})


@pytest.mark.parametrize(("path", "kind"), BAD.items())
def test_a_failure_is_counted_by_its_kind(server: Server, path: str, kind: str) -> None:
    assert counted(load_of(server, path)) == (0, {kind: 9})


def test_an_answer_that_differs_from_the_last_is_read_anew(server: Server) -> None:
    load = load_of(server, "/alternate", users=1, requests=10, keep_alive=True)
    assert counted(load) == (5, {"5xx": 5})


def test_a_request_over_its_time_is_a_timeout_and_one_in_flight_is_unfinished(
    server: Server,
) -> None:
    load = load_of(server, "/hang", requests=None, seconds=1.5, timeout=1.0)
    assert counted(load) == (0, {"timeout": 3, "unfinished": 3})


def test_a_closed_port_is_refused_and_the_load_gives_up() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        load = Load(f"http://127.0.0.1:{closed.getsockname()[1]}/", users=2, seconds=20)
        measured = run_here(load)
    refused = measured.figures.failed["refused"] or 0
    assert refused >= 1000
    assert measured.problem == f"builtin stopped after {refused} consecutive failures (refused)"
    assert 2.0 <= (measured.figures.elapsed_s or 0) < 15


def test_a_server_that_refuses_for_a_moment_does_not_end_the_load() -> None:
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        threading.Timer(0.6, late.listen).start()  # until then it refuses
        load = Load(f"http://127.0.0.1:{late.getsockname()[1]}/", users=2, seconds=1.0)
        measured = run_here(load)
    assert (measured.figures.failed["refused"] or 0) > 100
    assert measured.problem is None


@pytest.mark.parametrize(("users", "failures"), [(2, 1000), (1000, 4000)])
def test_a_batch_of_all_users_that_fails_does_not_end_the_load(users: int, failures: int) -> None:
    clients = ClosedLoop(Load("http://127.0.0.1/", users=users))
    for number in range(1, failures):
        clients.fail("refused", 0.0, 10.0 * number / failures)
    assert not clients.stopped
    clients.fail("refused", 0.0, 10.0)
    assert clients.stopped


def test_every_request_the_server_saw_is_in_the_sum(server: Server) -> None:
    before = server.requests["/pool"]
    measured = run_here(load_of(server, "/pool", requests=None, seconds=1.0, users=9))
    counted = (measured.figures.completed or 0) + sum(
        n or 0 for n in measured.figures.failed.values()
    )
    wait_until(lambda: server.requests["/pool"] - before == counted, 2)
    cut_off = measured.figures.failed["unfinished"] or 0  # perhaps before the server has read them
    assert counted - cut_off <= server.requests["/pool"] - before <= counted


def test_the_offered_requests_are_the_sum_of_all_outcomes(server: Server) -> None:
    whole = run_here(load_of(server, "/alternate", requests=10)).figures
    assert (whole.offered, whole.completed, whole.failed["5xx"]) == (10, 5, 5)
    load = load_of(server, "/hang", requests=None, seconds=1.5, timeout=1.0)
    figures = run_here(load).figures
    assert figures.offered == sum(count or 0 for count in figures.failed.values()) == 6


def test_a_request_without_an_outcome_is_a_problem() -> None:
    seen = Samples(failed=[("5xx", 0.1, 0.2)], unfinished=[0.3], requests=2)
    window = CountedTime(0.0, 1.0, is_own=False)
    assert summary(Load("http://127.0.0.1/"), window, [seen]).problem is None
    seen.requests = 4
    assert summary(Load("http://127.0.0.1/"), window, [seen]).problem == (
        "builtin has not accounted for 2 requests: report this defect"
    )


@pytest.mark.parametrize(("keep_alive", "connections"), [(True, 3), (False, 30)])
def test_connections_are_kept_only_on_request(
    server: Server, keep_alive: bool, connections: int
) -> None:
    before = server.accepts["/"]
    run_here(load_of(server, "/", requests=30, keep_alive=keep_alive))
    assert server.accepts["/"] - before == connections


def test_a_warm_up_ends_when_every_user_was_answered_and_leaves_nothing_in_flight(
    server: Server,
) -> None:
    load = load_of(server, "/pool", requests=None, seconds=0.1, each=1, users=9)
    measured = run_here(load)
    assert measured.figures.completed == 9
    assert 3 * SLOT_S - 0.01 <= (measured.figures.elapsed_s or 0) < 30 * SLOT_S


def test_the_rate_of_a_pool_is_slots_over_time(server: Server) -> None:
    before = len(server.slots_s)
    rate = run_here(load_of(server, "/pool", requests=None, seconds=1.5, users=8)).figures.rate
    assert rate == pytest.approx(server.pool_rate(before), rel=0.3)


def test_users_think_before_they_ask_again(server: Server) -> None:
    measured = run_here(load_of(server, "/", requests=30, think=0.1))
    assert (measured.figures.elapsed_s or 0) > 9 * 0.1 * 0.75  # 9 thoughts each, on average 0.1 s
    assert (measured.figures.response.p50_s or 1) < 0.05


def test_https_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with Server(context) as secure:
        assert counted(load_of(secure, "/")) == (0, {"tls": 9})
        monkeypatch.setenv("UPSTREAM_CA", str(tmp_path / "ca.pem"))
        assert counted(load_of(secure, "/")) == (9, {})


def test_quantiles_are_samples_by_nearest_rank() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert [quantile(ordered, q) for q in (0.5, 0.99, 0.999, 1.0)] == [50, 99, 100, 100]


def test_a_load_without_answers_has_no_times_rather_than_zeros() -> None:
    seen = Samples(failed=[("5xx", 0.1, 0.2), ("5xx", 0.2, 0.3)])
    measured = summary(Load("http://127.0.0.1/"), CountedTime(0.0, 1.0, is_own=False), [seen])
    assert (measured.figures.response.mean_s, measured.figures.response.p99_s) == (None, None)
    assert (measured.figures.rate, measured.figures.availability) == (0.0, 0.0)


def test_a_request_that_timed_out_belongs_in_the_quantiles() -> None:
    """97 requests of 1 s and 3 without an answer in 30 s: the p99 is at least 30 s, not 1 s."""
    times = array("d", range(97))
    seen = Samples(
        started=times,
        sent=times,
        ended=array("d", (t + 1.0 for t in times)),
        failed=[("timeout", 10.0, 40.02)] * 3 + [("5xx", 10.0, 10.1)],
    )
    window = CountedTime(0.0, 100.0, is_own=False)
    response = summary(Load("http://127.0.0.1/"), window, [seen]).figures.response
    assert (response.p50_s, response.p95_s, response.p99_s, response.max_s) == (1.0, 1.0, 30, 30)
    assert (response.mean_s, response.at_least_s) == (1.0, 30.0)  # the mean is of the answers
    assert sum((response.histogram or {}).values()) == 100
    seen.failed.clear()
    response = summary(Load("http://127.0.0.1/"), window, [seen]).figures.response
    assert (response.p99_s, response.at_least_s) == (1.0, None)


def test_a_load_of_timeouts_alone_has_quantiles_and_no_mean(server: Server) -> None:
    load = load_of(server, "/hang", requests=None, seconds=1.5, timeout=1.0)
    response = run_here(load).figures.response
    assert (response.mean_s, response.p50_s, response.at_least_s) == (None, 1.0, 1.0)


def test_no_result_is_a_problem_with_the_tools_last_words() -> None:
    assert parse("", "a\nValueError: b", Load("http://127.0.0.1/")).problem == (
        "builtin printed no result: ValueError: b"
    )
