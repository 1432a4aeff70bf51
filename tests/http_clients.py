"""HTTP clients for tests, sequential or concurrent, built on the standard library."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LIMIT = 45.0  # s for all clients to end; each request has its own timeout


def get(url: str, timeout: float = 20) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=timeout)
    try:
        connection.request("GET", "/" + url.split("/", 3)[3])
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def in_threads(count: int, call: Callable[[], Any]) -> list[Any]:
    """Call from `count` threads at once; return each result, or the exception instead."""
    answers: list[Any] = []

    def one() -> None:
        try:
            answers.append(call())
        except (OSError, http.client.HTTPException) as error:
            answers.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)
    return answers


@contextmanager
def background_requests(url: str, clients: int = 8) -> Iterator[list[Any]]:
    """Send requests from `clients` threads meanwhile; afterwards the list has every status."""
    ended, statuses = threading.Event(), list[Any]()

    def send() -> None:
        while not ended.is_set():
            statuses.append(get(url)[0])

    sender = threading.Thread(
        target=lambda: statuses.extend(filter(None, in_threads(clients, send)))
    )
    sender.start()
    try:
        yield statuses
    finally:
        ended.set()
        sender.join(LIMIT)
    assert not sender.is_alive()
