"""A child process for one request: it ends with the server, and ignores stop signals.

It reads the time of the server's stop signal from shared memory. After the signal, a connection
without a complete request ends soon, as in servers without children.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from offload import prctl
from offload.serving.lifecycle import log
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.pools import pool_workers


class RequestChild:
    """Steps around the fork of a request's child: `forked` in the server, `set_up` in the child."""

    def __init__(self) -> None:
        self._end_with_parent = prctl.parent_death_hook(os.getpid())  # loads the C library once
        stop.share()

    @contextlib.contextmanager
    def forked(self) -> Iterator[None]:
        """Fork inside this context: signals are blocked until the child is set up.

        A failed fork is logged and raised: the connection is closed, and the client counts this.
        """
        with pool_workers.block_signals():
            try:
                yield
            except OSError as error:
                log.failure(f"no process can be forked for a request: {error.strerror}")
                raise

    def set_up(self) -> None:
        """Prepare the child, which finishes its request during the server's drain."""
        self._end_with_parent()
        for number in pool_workers.SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, pool_workers.SIGNALS)
