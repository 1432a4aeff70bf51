"""Run `python -m offload.servers` with one timeout of 2 s; SHORT_TIMEOUT has its name."""

from __future__ import annotations

import os
import sys

from offload.serving.lifecycle import stop_signal
from offload.serving.pools import pool_workers

SECONDS = 2.0

if __name__ == "__main__":
    if os.environ["SHORT_TIMEOUT"] == "DRAIN":
        stop_signal.DRAIN = SECONDS
    else:
        pool_workers.DEADLINE = SECONDS  # before other modules import it
    from offload.serving.main import main

    sys.exit(main(sys.argv[1:]))
