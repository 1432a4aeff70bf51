"""Accepting connections: only some of those that wait in one iteration of the event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import pytest

from offload.serving.lifecycle.drain import MOST_AT_ONCE, ListeningSocket

pytestmark = pytest.mark.unit


def test_each_iteration_of_the_loop_accepts_some_of_the_connections() -> None:
    async def accept_in_three_iterations(listening: ListeningSocket) -> list[int]:
        counts = []
        for _ in range(3):
            count = 0
            try:
                while True:
                    stack.enter_context(listening.accept()[0])
                    count += 1
            except BlockingIOError:
                counts.append(count)
            await asyncio.sleep(0)
        return counts

    with ExitStack() as stack:
        bound = socket.create_server(("127.0.0.1", 0), backlog=4 * MOST_AT_ONCE)
        listening = stack.enter_context(ListeningSocket(fileno=bound.detach()))
        listening.setblocking(False)
        for _ in range(2 * MOST_AT_ONCE):
            stack.enter_context(socket.create_connection(listening.getsockname(), timeout=20))
        assert asyncio.run(accept_in_three_iterations(listening)) == [MOST_AT_ONCE, MOST_AT_ONCE, 0]
