"""Expire things, each after the same time: one timer for all of them, not one for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class Expiry(Generic[T]):
    """Call `expire` with each thing that is not removed within `seconds`.

    The things are in the order of their deadlines, because all have the same time.
    """

    def __init__(self, seconds: float, expire: Callable[[T], object]) -> None:
        self._seconds = seconds
        self._expire = expire
        self._deadlines: dict[T, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, thing: T) -> None:
        """Expire a thing, in `seconds` from now."""
        self._deadlines[thing] = monotonic() + self._seconds
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._expire_due, loop)

    def remove(self, thing: T) -> bool:
        """Do not expire a thing; return False if it has expired or was never added."""
        return self._deadlines.pop(thing, None) is not None

    def _expire_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now, self._timer = monotonic(), None
        due = []
        for thing, deadline in self._deadlines.items():
            if deadline > now:
                self._timer = loop.call_later(deadline - now, self._expire_due, loop)
                break
            due.append(thing)
        for thing in due:
            del self._deadlines[thing]
            self._expire(thing)
