"""The closed loop: users that each wait for their answer before they ask again."""

from __future__ import annotations

import math
import random
from time import monotonic

from offload.loads import Load
from offload.loads.engine.clients import Clients
from offload.loads.engine.connection import Connection


class Closed(Clients):
    """All users of one load process, for a time, for so many requests, or for so many each."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._left: float = math.inf if load.requests is None else load.requests
        self._is_over = False
        self._is_endless = load.requests is None and load.each is None and not load.think
        self._chance = random.Random(load.seed)  # noqa: S311 - jitter, to be repeated

    def begin(self) -> None:
        self._began = monotonic()
        self.connections.extend(Connection(self) for _ in range(self.load.users))
        self._busy = len(self.connections)
        for user in self.connections:
            self.next(user, monotonic())

    def next(self, connection: Connection, now: float) -> None:
        if self._is_endless and not self.stopped:  # the hot path
            connection.ask(now)
            return
        if self.stopped:
            return
        is_done = self._is_over or self._left <= 0
        if is_done or (self.load.each is not None and self._has_enough(connection, now)):
            self._rest()
            return
        self._left -= 1
        if self.load.think and connection.answers:
            pause = self.load.think * self._chance.uniform(0.5, 1.5)
            self.loop.call_later(pause, self._ask, connection)
        else:
            connection.ask(now)

    def ask_no_more(self) -> None:
        self._is_over, self._is_endless = True, False

    def _ask(self, user: Connection) -> None:
        """Ask after a pause for thought, unless nobody is to ask any more."""
        if self._is_over:
            self._rest()
        elif not self.stopped:
            user.ask(monotonic())

    def _has_enough(self, user: Connection, now: float) -> bool:
        each, seconds = self.load.each or 0, self.load.seconds or 0.0
        return user.answers >= each and now - self._began >= seconds

    def _rest(self) -> None:
        """Have one user less that asks; the load is over when none is left."""
        self._busy -= 1
        if self._busy == 0:
            self.stop()
