"""The vigil: how a worker waits for its parent, awake for a moment where that pays, else asleep."""

from __future__ import annotations

import select
import socket
from time import monotonic_ns

SPIN = 200_000  # ns to stay awake at most: somewhat more than to fall asleep and be woken costs
LONGEST = 5 * SPIN  # that a wait counts for, so that one pause is soon forgotten
SHARE = 0.25  # of the last wait in what is usual


class Vigil:
    """Wait until a socket has something to read.

    To wake a sleeping core takes longer than all else of a hop where it is a virtual one. So a
    worker whose waits are usually shorter than SPIN looks for so long before it sleeps: a stream of
    tasks finds it awake, and its end costs a few SPIN once. With `spin` False it sleeps at once.
    """

    def __init__(self, sock: socket.socket) -> None:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        # A blocked recv would be woken in vain each time the parent takes an answer: poll is not.
        self._poll = poll.poll
        self._usual = float(LONGEST)
        self.spin = False

    def wait(self) -> None:
        """Return when there is something, be it the end."""
        poll = self._poll
        began = now = monotonic_ns()
        if self.spin and self._usual < SPIN:
            while not poll(0) and now - began < SPIN:
                now = monotonic_ns()
        poll()
        waited = min(monotonic_ns() - began, LONGEST)
        self._usual += (waited - self._usual) * SHARE
