"""`python -m offload.servers` with one timeout of 2 s instead of 10 s: HURRIED is its name."""

from __future__ import annotations

import os
import sys

from offload.serving.lifecycle import stop_signal
from offload.serving.pools import pool_workers

SECONDS = 2.0

if __name__ == "__main__":
    if os.environ["HURRIED"] == "DRAIN":
        stop_signal.DRAIN = SECONDS
    else:
        pool_workers.DEADLINE = SECONDS  # before others take it from there
    from offload.serving.main import main

    sys.exit(main(sys.argv[1:]))
