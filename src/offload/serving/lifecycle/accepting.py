"""Accepting connections while no descriptor is free for another one.

A connection that cannot be accepted stays in the listen queue, which is therefore ready at once. A
server that tried again without a pause would occupy a CPU.
"""

from __future__ import annotations

import errno

from offload.serving.lifecycle import log

PAUSE = 0.1  # s until the next attempt; a guess
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def is_exhausted(error: OSError) -> bool:
    """Whether a connection could not be accepted because a limit is reached; log it."""
    if error.errno not in EXHAUSTED:
        return False
    log.failure(f"no connection can be accepted: {error.strerror}")
    return True
