"""`python -m servers` with less patience, so that tests need not wait for what takes 10 s."""

from __future__ import annotations

import sys

from servers import _stop, _workers

SECONDS = 2.0

if __name__ == "__main__":
    _stop.DRAIN = _workers.DEADLINE = SECONDS  # before others take them from there
    from servers.__main__ import main

    sys.exit(main(sys.argv[1:]))
