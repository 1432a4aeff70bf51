"""The attack finds the faults of servers that have them: real servers, each with one fault."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lab.faults.requests import attack, exchange, judgement, valid
from lab.faults.requests.attack import Message
from lab.faults.requests.judgement import REFUSED, SERVED

pytestmark = pytest.mark.server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BAD = b"GET / HTTP/1.1\r\nX : y\r\n\r\n"
LIMIT_S = 0.5


@contextmanager
def responding(respond: Callable[[socket.socket, bytes], None]) -> Iterator[int]:
    """Run a server that calls `respond` with each connection and the first bytes on it."""

    def serve() -> None:
        while True:
            try:
                client = listening.accept()[0]
            except OSError:  # it was shut down
                return
            with client:
                client.settimeout(10)
                respond(client, client.recv(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(20)
    assert not thread.is_alive()


def always(*parts: bytes) -> Callable[[socket.socket, bytes], None]:
    return lambda client, _: client.sendall(b"".join(parts))


def stay_open_refusing(client: socket.socket, _: bytes) -> None:
    stay_open(client, _, OK.replace(b"200", b"400"))


def stay_open(client: socket.socket, _: bytes, response: bytes = OK) -> None:
    """Respond, and keep the connection open for longer than the client waits."""
    client.sendall(response)
    while client.recv(1 << 16):
        pass
    threading.Event().wait(3 * LIMIT_S)


@pytest.mark.parametrize(
    ("respond", "data", "expected", "fault"),
    [
        (always(OK), valid.LAST, SERVED, ""),
        (always(OK, OK), valid.LAST, SERVED, "2 responses to 1 request"),
        (always(OK, OK), valid.SIMPLE * 2, SERVED, ""),
        (always(OK[:-1]), valid.LAST, SERVED, "an incomplete response"),
        (always(b"ok"), b"GET /\r\n\r\n", REFUSED, "no HTTP response: b'ok'"),
        (always(), valid.LAST, SERVED, "no response to a valid request"),
        (always(), BAD, REFUSED, ""),
        (always(OK), BAD, REFUSED, "a malformed request was served (200)"),
        (always(OK.replace(b"200", b"400")), BAD, REFUSED, ""),
        (always(OK.replace(b"200", b"400")), valid.LAST, SERVED, "a valid request was refused"),
        (stay_open, valid.SIMPLE, SERVED, ""),
        (stay_open, valid.SIMPLE * 2, SERVED, "the connection was not closed"),
        (stay_open_refusing, BAD, REFUSED, "the connection was not closed"),
    ],
)
def test_a_fault_is_found(
    respond: Callable[[socket.socket, bytes], None], data: bytes, expected: str, fault: str
) -> None:
    with responding(respond) as port:
        assert judgement.fault(exchange.send(port, data, LIMIT_S), expected) == fault


def test_faults_and_failed_requests_are_counted() -> None:
    def refuse_once(client: socket.socket, data: bytes) -> None:
        if data == BAD:
            client.sendall(OK)
        elif len(served) < 2:
            served.append(data)
            client.sendall(OK)

    served: list[bytes] = []
    with responding(refuse_once) as port:
        tally = attack.run(port, [Message("bad", BAD, REFUSED)] * 3)
    assert (tally.sent, tally.unserved, tally.is_cut) == (3, 1, False)
    assert tally.faults == {"a malformed request was served (200)": 3}
    assert tally.examples == {"a malformed request was served (200)": "bad"}
    assert "1 valid requests afterwards failed" in tally.figure


def test_a_server_that_has_ended_is_a_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    tally = attack.run(port, [Message("valid", valid.LAST)])
    assert tally.faults == {"no connection: Connection refused": 1}
    assert tally.unserved == 1


def test_a_server_that_stalls_is_not_sent_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "LIMIT_S", 0.1)
    monkeypatch.setattr(attack, "MOST_STALLED", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        tally = attack.run(port, [Message("valid", valid.LAST)] * 1000)
    assert tally.is_cut
    assert 2 <= tally.stalled <= tally.sent < 1000
    assert "not sent" in tally.figure


def test_what_is_not_sent_in_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "TOTAL_S", 0.0)
    assert attack.run(1, [Message("valid", valid.LAST)]).is_cut
