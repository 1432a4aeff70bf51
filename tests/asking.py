"""Asking a server as several clients do, with the standard library alone."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LIMIT = 45.0  # s for clients to be answered; each request has a limit of its own


def get(url: str, timeout: float = 20) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=timeout)
    try:
        connection.request("GET", "/" + url.split("/", 3)[3])
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def together(count: int, ask: Callable[[], Any]) -> list[Any]:
    """Call from `count` threads at once; give what each got, or the exception it got."""
    answers: list[Any] = []

    def one() -> None:
        try:
            answers.append(ask())
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
def asked(url: str, clients: int = 8) -> Iterator[list[Any]]:
    """Keep clients asking for as long as this lasts; afterwards the list has every status."""
    ended, statuses = threading.Event(), list[Any]()

    def ask() -> None:
        while not ended.is_set():
            statuses.append(get(url)[0])

    asking = threading.Thread(target=lambda: statuses.extend(filter(None, together(clients, ask))))
    asking.start()
    try:
        yield statuses
    finally:
        ended.set()
        asking.join(LIMIT)
    assert not asking.is_alive()
