"""Build the octopus database unless it is complete: fab build_octopus_db."""

from __future__ import annotations

import sys
import time

from offload.errors import Mendable
from offload.serving.frameworks.octopus import database


def main(words: list[str]) -> int:
    """Build so many rows and say what was done; return the exit code."""
    rows = int(words[0])
    try:
        if database.is_whole(rows):
            print(f"{database.path()} is there with {rows} octopuses, and whole")
            return 0
        began = time.monotonic()
        digest = database.build(rows)
    except Mendable as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    took = time.monotonic() - began
    print(f"{database.path()}: {rows} octopuses in {took:.1f} s, sha256 {digest[:16]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
