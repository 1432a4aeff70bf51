"""The closed loop: each user waits for its response before it sends the next request."""

from __future__ import annotations

import math
import random
from time import monotonic

from offload.loads import Load
from offload.loads.engine.connections.clients import Clients
from offload.loads.engine.connections.connection import Connection


class ClosedLoop(Clients):
    """The users of one load process; they stop after a time or a number of requests."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._remaining: float = math.inf if load.requests is None else load.requests
        self._is_over = False
        self._is_endless = load.requests is None and load.each is None and not load.think
        self._random = random.Random(load.seed)  # noqa: S311 - repeatable jitter

    def start(self, now: float) -> None:
        self._started_at = now
        self.connections.extend(self.new_connection() for _ in range(self.load.users))
        self._active = len(self.connections)
        for user in self.connections:
            self.next(user, monotonic())

    def next(self, connection: Connection, now: float) -> None:
        if self._is_endless and not self.stopped:  # the hot path
            connection.send(now)
            return
        if self.stopped:
            return
        is_done = self._is_over or self._remaining <= 0
        if is_done or (self.load.each is not None and self._has_enough(connection, now)):
            self._stop_user()
            return
        self._remaining -= 1
        if self.load.think and connection.responses:
            pause = self.load.think * self._random.uniform(0.5, 1.5)
            self.loop.call_later(pause, self._send, connection)
        else:
            connection.send(now)

    def stop_sending(self) -> None:
        self._is_over, self._is_endless = True, False

    def _send(self, user: Connection) -> None:
        """Send after the think time, unless sending has stopped."""
        if self._is_over:
            self._stop_user()
        elif not self.stopped:
            user.send(monotonic())

    def _has_enough(self, user: Connection, now: float) -> bool:
        each, seconds = self.load.each or 0, self.load.seconds or 0.0
        return user.responses >= each and now - self._started_at >= seconds

    def _stop_user(self) -> None:
        """Stop one user; the load ends when none is left."""
        self._active -= 1
        if self._active == 0:
            self.stop()
