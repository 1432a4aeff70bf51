"""Admission by expected wait: a request that would wait too long is refused at once.

    expected wait = max(0, requests in flight - workers + 1) x mean service time / workers

This is the time until a worker is free. A client whose patience ends before its response has cost a
worker's time for nothing. So under overload a server that accepts everything completes nothing in
time; one that refuses early works only on requests that are still wanted. A refused client learns
at once when to retry.
"""

from __future__ import annotations

import math
import socket
import struct

from offload.serving.metrics.process_counts import Counts

FIRST = 8  # requests per worker that are admitted before the first service time is known; a guess
WEIGHT = 0.1  # of the latest service time in the mean; a guess
LAST_DATA_RECEIVED = 52  # the offset of tcpi_last_data_recv in Linux's struct tcp_info


class Admission:
    """The admission of one process: count `in_flight`, and call `note` for each finished task."""

    def __init__(self, workers: int, max_wait: float, counts: Counts | None = None) -> None:
        self.workers = workers
        self.max_wait = max_wait
        self._counts = counts or Counts()
        self.service_s: float | None = None  # mean time for which a task occupies a worker
        self._noted = 0

    @property
    def in_flight(self) -> int:
        """The number of admitted requests without a response."""
        return self._counts["in_flight"]

    @in_flight.setter
    def in_flight(self, number: int) -> None:
        self._counts["in_flight"] = number

    def note(self, seconds: float) -> float:
        """Add the service time of a finished task to the mean, and return the mean.

        The latest tasks count most.
        """
        self._noted += 1
        known = self.service_s or 0.0
        weight = WEIGHT if self._noted * WEIGHT > 1 else 1 / self._noted
        self.service_s = mean = known + (seconds - known) * weight
        return mean

    def retry_after(self, stuck: int = 0) -> int | None:
        """Return None to admit a request; to refuse it, the seconds after which to retry.

        `stuck` workers do not count.
        """
        workers = self.workers - stuck
        if workers <= 0:
            return whole_seconds(self.max_wait)
        if self.service_s is None:
            return None if self.in_flight < FIRST * workers else whole_seconds(self.max_wait)
        expected = max(0, self.in_flight - workers + 1) * self.service_s / workers
        return None if expected <= self.max_wait else whole_seconds(expected)


def whole_seconds(seconds: float) -> int:
    """Return a time in whole seconds, rounded up, and at least 1."""
    return max(1, math.ceil(seconds))


def waited_s(connection: socket.socket) -> float:
    """Return the seconds since data last arrived on a connection; 0 where that is unknown.

    That is how long its request has waited, also while the event loop was blocked. Only Linux
    reports it.
    """
    if not hasattr(socket, "TCP_INFO"):
        return 0.0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_DATA_RECEIVED + 4)
    except OSError:  # it was closed
        return 0.0
    milliseconds: int = struct.unpack_from("I", info, LAST_DATA_RECEIVED)[0]
    return milliseconds / 1000
