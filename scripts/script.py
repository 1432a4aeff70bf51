"""Run a script: print its docstring for --help, and one line for an error that users can fix."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from offload.errors import UserError

ROOT = Path(__file__).resolve().parents[1]


def run(main: Callable[[list[str]], int | str]) -> NoReturn:
    """Call `main` with the command-line arguments, and exit with its result."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & {*arguments}:
        sys.exit(print(sys.modules["__main__"].__doc__))
    try:
        sys.exit(main(arguments))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
