"""Run `python -m offload.servers` with one shorter timeout; SHORT_TIMEOUT has its name."""

from __future__ import annotations

import os
import sys

from offload.serving.lifecycle import drain, stop_signal
from offload.serving.pools import pool_workers, recovery
from offload.serving.protection import limits

SECONDS = 2.0  # instead of 10
REQUEST = 1.0  # instead of 10
RESPONSE = 1.0  # instead of 10
READY = 0.7  # instead of 10
SENDING = 0.5  # instead of 2

if __name__ == "__main__":
    match os.environ["SHORT_TIMEOUT"]:
        case "DRAIN":
            stop_signal.DRAIN = SECONDS
        case "DEADLINE":
            pool_workers.DEADLINE = SECONDS  # before other modules import it
        case "REQUEST":
            limits.REQUEST = REQUEST
        case "RESPONSE":
            limits.RESPONSE = RESPONSE
        case "READY":
            recovery.READY = READY
        case "SENDING":
            drain.SENDING = SENDING
    from offload.serving.main import main

    sys.exit(main(sys.argv[1:]))
