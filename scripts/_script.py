"""A script: its docstring is its help, and what a user can mend ends it with one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "pipepool" / "src")]  # also where none is installed

from offload.errors import Mendable  # noqa: E402 - found by the line above


def run(main: Callable[[list[str]], int | str]) -> NoReturn:
    """Call `main` with the words of the command line, and exit with what it gives."""
    words = sys.argv[1:]
    if {"-h", "--help"} & {*words}:
        sys.exit(print(sys.modules["__main__"].__doc__))
    try:
        sys.exit(main(words))
    except Mendable as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
