"""`python -m offload.servers` that waits for one thing 2 s in place of 10: HURRIED is its name."""

from __future__ import annotations

import os
import sys

from offload.servers import _stop, _workers

SECONDS = 2.0

if __name__ == "__main__":
    if os.environ["HURRIED"] == "DRAIN":
        _stop.DRAIN = SECONDS
    else:
        _workers.DEADLINE = SECONDS  # before others take it from there
    from offload.servers.__main__ import main

    sys.exit(main(sys.argv[1:]))
