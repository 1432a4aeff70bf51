"""Admission by expected wait, and its response."""

from __future__ import annotations

import select
import socket
import time
from contextlib import ExitStack

import pytest

from offload.serving.protection.admission import FIRST, Admission, waited_s, whole_seconds
from tests.servers.protection.conftest import Protected, counts


def test_a_request_is_refused_if_its_expected_wait_exceeds_the_maximum() -> None:
    admission = Admission(workers=4, max_wait=5.0)
    admission.note(0.2)
    admission.in_flight = 103  # 100 x 0.2 s / 4 = 5 s
    assert admission.retry_after() is None
    admission.in_flight = 104
    assert admission.retry_after() == 6  # 5.05 s


def test_a_request_is_admitted_while_a_worker_is_free_however_long_tasks_take() -> None:
    admission = Admission(workers=4, max_wait=0.1)
    admission.note(12.0)
    for busy, retry_s in ((0, None), (3, None), (4, 3)):
        admission.in_flight = busy
        assert admission.retry_after() == retry_s


def test_stuck_workers_do_not_shorten_the_expected_wait() -> None:
    admission = Admission(workers=4, max_wait=5.0)
    admission.note(0.2)
    admission.in_flight = 52  # 51 x 0.2 s / 2 = 5.1 s
    assert (admission.retry_after(stuck=0), admission.retry_after(stuck=2)) == (None, 6)
    admission.in_flight = 0
    assert (admission.retry_after(stuck=3), admission.retry_after(stuck=4)) == (None, 5)


def test_a_bounded_number_is_admitted_before_the_first_service_time() -> None:
    admission = Admission(workers=4, max_wait=2.5)
    admission.in_flight = 4 * FIRST - 1
    assert admission.retry_after() is None
    admission.in_flight += 1
    assert admission.retry_after() == 3


def test_the_mean_service_time_follows_the_latest_tasks() -> None:
    admission = Admission(workers=1, max_wait=1.0)
    for _ in range(3):
        admission.note(1.0)
    assert admission.service_s == pytest.approx(1.0)
    for _ in range(100):
        admission.note(3.0)
    assert admission.service_s == pytest.approx(3.0, rel=0.01)


@pytest.mark.parametrize(("seconds", "whole"), [(0.0, 1), (1.0, 1), (1.01, 2), (7.5, 8)])
def test_retry_after_is_in_whole_seconds_rounded_up(seconds: float, whole: int) -> None:
    assert whole_seconds(seconds) == whole


def test_the_kernel_reports_how_long_data_has_waited() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        client.sendall(b"x")
        time.sleep(0.3)
        with server.accept()[0] as accepted:  # it has waited in the listen queue
            waited = waited_s(accepted)
        assert 0.25 <= waited < 5 or not hasattr(socket, "TCP_INFO")
    assert waited_s(accepted) == 0.0  # closed


@pytest.mark.server
@pytest.mark.parametrize("name", ["threads", "processes", "pipes"])
def test_a_refused_request_has_the_time_to_retry(name: str, protected: Protected) -> None:
    running = protected(name, "hang", workers=1, max_wait=59.5)
    address = ("127.0.0.1", int(str(running.facts["port"])))
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(address, timeout=20))
            for _ in range(FIRST + 1)
        ]
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        (refused,) = select.select(clients, [], [], 20)[0]
        response = b"".join(iter(lambda: refused.recv(4096), b""))
        head, _, body = response.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 60\r\n" in head
        assert body == b"overloaded: retry later\n"
        assert counts(running) == {"refused": 1, "dropped": 0, "timed_out": 0, "stuck": 0}
