"""Build the octopus database unless it is complete: offload build_octopus_db."""

from __future__ import annotations

import sys
import time

from offload.errors import UserError
from offload.serving.frameworks.octopus import database


def main(arguments: list[str]) -> int:
    """Build the given number of rows and print the result; return the exit code."""
    rows = int(arguments[0])
    try:
        if database.is_complete(rows):
            print(f"{database.path()} is complete with {rows} octopuses")
            return 0
        started = time.monotonic()
        digest = database.build(rows)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    elapsed_s = time.monotonic() - started
    print(f"{database.path()}: {rows} octopuses in {elapsed_s:.1f} s, sha256 {digest[:16]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
