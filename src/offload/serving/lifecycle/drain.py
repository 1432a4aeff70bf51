"""The drain: requests that were accepted before a stop signal are finished, others are refused.

The order is the same for every server: accept the connections in the listen queue; close the
listener; finish the requests in progress; wait a short time for clients that still receive
responses; close the connections. The kernel drops new connections (`refuse_new`) before the queue
is emptied, if no other process listens. `stop_signal.DRAIN` limits the whole drain.
"""

from __future__ import annotations

import array
import asyncio
import errno
import select
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from offload.serving.lifecycle import log

HANDSHAKE = 0.02  # s for the kernel to complete handshakes that began before `refuse_new`; a guess
QUIET = 0.05  # s without a new request until idle connections are closed; a guess
LATE_QUIET = 0.3  # s, after late connections: clients send dropped packets again after 0.2 s
SENDING = 2.0  # s for slow clients to receive their responses after the last task; a guess


def refuse_new(listening: socket.socket) -> float:
    """Let the kernel drop requests for new connections to a socket that will be closed (Linux).

    Otherwise a connection that arrives between the last accept() and close() is reset. With this,
    its client is refused when it tries again. Other processes that share the socket must end, too.
    Return the seconds in which handshakes that began before end: if the listen queue was full, the
    kernel dropped the last packet of some, whose clients send it again.
    """
    handshake_s = LATE_QUIET if dropped_packets(listening) else HANDSHAKE
    # Packets need a time to live of 255; systems send with 64 or 128. Connections in the queue are
    # kept. A filter (SO_ATTACH_FILTER) does the same, but for root only on some kernels.
    set_min_ttl(listening, 255)
    return handshake_s


def is_waiting(listening: socket.socket, seconds: float = HANDSHAKE) -> bool:
    """Return whether a connection is in the listen queue, or enters it within `seconds`."""
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


async def accept_waiting(
    listening: socket.socket, backlog: int, handshake_s: float = HANDSHAKE
) -> float:
    """Let the loop accept the connections in the listen queue, but not an endless stream.

    It is empty if no connection enters it within `handshake_s`, which `refuse_new` returns.

    Return the seconds without a new request after which idle connections may be closed.
    """
    quiet_s = QUIET
    iterations = backlog // MOST_AT_ONCE + 3  # loops without Tornado need fewer
    for _ in range(iterations):
        if not is_waiting(listening, 0):
            await asyncio.sleep(handshake_s)
            if not is_waiting(listening, 0):
                break
        quiet_s = LATE_QUIET
        await asyncio.sleep(0)
    return quiet_s


async def wait_until_quiet(
    started: Callable[[], int], is_busy: Callable[[], bool], quiet_s: float
) -> None:
    """Wait until no request is in progress and none was `started` for `quiet_s` seconds."""
    while True:
        before = started()
        await asyncio.sleep(quiet_s)
        await asyncio.sleep(0)  # a loop that was blocked may run timers before it reads sockets
        if not is_busy() and started() == before:
            return


class Count:
    """Counts requests: those that are inside `with` now, and all that have entered it."""

    def __init__(self) -> None:
        self.now = 0
        self.started = 0
        self._none = asyncio.Event()
        self._none.set()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        """Count a request that begins."""
        self.now += 1
        self.started += 1
        self._none.clear()

    def leave(self) -> None:
        """Count a request that ends."""
        self.now -= 1
        if self.now == 0:
            self._none.set()

    async def wait(self) -> None:
        """Wait until there are none."""
        await self._none.wait()


class Requests:
    """The requests of a server: those whose task runs, and those whose response is being sent.

    The drain waits for all tasks, but for responses at most SENDING: a client that reads slowly, or
    not at all, cannot delay the end for longer.
    """

    def __init__(self) -> None:
        self.at_work = Count()
        self.being_sent = Count()

    async def finish(self, quiet_s: float) -> None:
        """Wait until no task runs and no request arrives, then for the responses, up to SENDING."""
        await self.at_work.wait()
        await wait_until_quiet(lambda: self.at_work.started, lambda: self.at_work.now > 0, quiet_s)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.being_sent.wait(), SENDING)


# Accepting connections during an overload, and while no descriptor is free for another one. Tornado
# accepts up to 128 connections in one iteration of its loop. Then the responses of finished tasks
# wait until all of these have been handled. A connection that cannot be accepted stays in the
# listen queue, which is therefore ready at once: a server that tried again without a pause would
# occupy a CPU.
MOST_AT_ONCE = 16  # connections accepted in one iteration of the loop; a guess
PAUSE = 0.1  # s until the next attempt; a guess
MIN_TTL = {  # options of Linux, by family: IP_MINTTL and IPV6_MINHOPCOUNT
    socket.AF_INET: (socket.IPPROTO_IP, 21),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 73),
}
SO_MEMINFO, MEMINFO_WORDS, MEMINFO_DROPS = 55, 9, 8  # sock_diag.h of Linux
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ListeningSocket(socket.socket):
    """A listening socket for Tornado: in an iteration of the loop it returns at most MOST_AT_ONCE.

    The loop ignores it for PAUSE when a limit of descriptors is reached. `is_backlogged`: the last
    iteration left connections in the listen queue, so the next ones have waited there.
    """

    is_backlogged = False
    _accepted = 0  # in this iteration
    _is_full = False  # no descriptor was free in this iteration

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and its address; raise BlockingIOError if there is none now."""
        if self._accepted >= MOST_AT_ONCE:
            raise BlockingIOError(errno.EAGAIN, "the next one is accepted in the next iteration")
        if not self._accepted:
            asyncio.get_running_loop().call_soon(self._begin_iteration)
        self._accepted += 1
        try:
            connection, address = super().accept()
        except OSError as error:
            self._accepted -= 1
            if not is_exhausted(error):
                raise
        else:
            receive_from(connection)
            return connection, address
        self._is_full = True
        self._watch(False)
        asyncio.get_running_loop().call_later(PAUSE, self._watch, True)
        raise BlockingIOError(errno.EAGAIN, "no descriptor is free")

    def _begin_iteration(self) -> None:
        self.is_backlogged = self._is_full or self._accepted >= MOST_AT_ONCE
        self._accepted, self._is_full = 0, False

    def _watch(self, is_watched: bool) -> None:
        from tornado.ioloop import IOLoop  # here: servers of http.server need no Tornado

        if self.fileno() != -1:  # else it was closed
            IOLoop.current().update_handler(self, IOLoop.READ if is_watched else 0)


def is_exhausted(error: OSError) -> bool:
    """Whether a connection could not be accepted because a limit is reached; log it."""
    if error.errno not in EXHAUSTED:
        return False
    log.failure(f"no connection can be accepted: {error.strerror}")
    return True


def receive_from(connection: socket.socket) -> None:
    """Receive packets of a connection that began while new ones were dropped: it inherits that.

    The listener may be shared with a process that knows of the stop before this one.
    """
    set_min_ttl(connection, 0)


def set_min_ttl(sock: socket.socket, ttl: int) -> None:
    """Let the kernel drop packets to a socket whose time to live is below `ttl` (Linux)."""
    if sys.platform == "linux":
        with suppress(OSError, KeyError):  # a sandbox may forbid it
            sock.setsockopt(*MIN_TTL[sock.family], ttl)


def dropped_packets(listening: socket.socket) -> int:
    """Return how many packets of clients the kernel dropped because the listen queue was full.

    0 if it is unknown (Linux counts them since 4.12).
    """
    with suppress(OSError, IndexError):
        counts = listening.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * MEMINFO_WORDS)
        return array.array("I", counts)[MEMINFO_DROPS] if sys.platform == "linux" else 0
    return 0
