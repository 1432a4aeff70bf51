"""Commands: a public function with `@command(GROUP)` is a command, and its docstring is its help.

The parameters of the function are the options of the command. A UserError ends the command with a
message of one line and an exit code.
"""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fabric import task
from invoke import Context, Exit

from offload import resource_limits
from offload.errors import MachineError, UserError

GROUPS: dict[str, list[str]] = {
    name: [] for name in ("Start here", "Serve", "Measure", "Understand", "Maintain")
}
COMMANDS: dict[str, Any] = {}


def _check_folder() -> None:
    """Raise MachineError if the current folder was removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise MachineError("the current folder was removed", "change to another one") from None


def as_task(function: Callable[..., None]) -> Any:
    """Return a function as a task of Fabric, whose errors are one line and an exit code."""

    @functools.wraps(function)
    def run(context: Context, *arguments: str, **options: Any) -> None:
        # Raise KeyboardInterrupt, so that every `finally` runs; `interrupts` changed SIGINT.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, signal.default_int_handler)
        try:
            _check_folder()
            function(context, *arguments, **options)
            sys.stdout.flush()
        except UserError as error:
            raise Exit(f"error: {error}", code=error.exit_code) from error
        except (MemoryError, OSError, RuntimeError) as error:
            what = f"the command failed ({type(error).__name__}: {error})"
            limit = resource_limits.machine_error(what, error)
            if limit is None:
                raise
            raise Exit(f"error: {limit}", code=limit.exit_code) from error
        except KeyboardInterrupt:
            raise Exit("interrupted", code=130) from None

    return task(auto_shortflags=False)(run)


def command(group: str) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that registers a function as a command of a group."""

    def decorate(function: Callable[..., None]) -> Any:
        GROUPS[group].append(function.__name__)
        COMMANDS[function.__name__] = as_task(function)
        return COMMANDS[function.__name__]

    return decorate
