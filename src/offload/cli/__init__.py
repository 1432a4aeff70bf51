"""The command line: the program `offload`, and the words of `fab`, which are rewritten to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main() -> NoReturn:
    """Run the command `offload`."""
    sys.exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Run a command line of `offload`, whose words may also be those of `fab`."""
    from offload.cli import fab  # slow: it imports all commands, which register themselves
    from offload.cli.program import OFFLOAD

    return fab.run_all(words) if words and ":" in words[0] else OFFLOAD.run(words)
